/**
 * Whether this page is a static site: there is no bridge, and what a bridge would do is done in the
 * worker.
 */

export const isSite = document.documentElement.dataset.site !== undefined;
