/**
 * Whether this page is a static site: it has no bridge, and the worker does a bridge's part.
 */

export const isSite = document.documentElement.dataset.site !== undefined;
