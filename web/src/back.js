/** Events of a page after which the network may be back; timers may have slept until then. */
export const BACK = ["online", "pageshow", "visibilitychange"];
