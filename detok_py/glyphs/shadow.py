"""Closed declarative shadow roots: scripts cannot reach them, the debugger of Chromium can.

In: the pages of a context. Out: each such root is given to the watcher of its document.
"""

from typing import Any

from .calls import Steps, quietly

OBSERVE = "function () { this.ownerDocument.defaultView?.__detokGlyphs?.observe(this) }"


def open_closed_roots(context: Any, pages: list[Any], debuggers: list[tuple[Any, Any]]) -> Steps:
    """Give closed shadow roots to the watcher. `debuggers` keeps the debugger of each page."""
    browser = context.browser
    if browser is None or browser.browser_type.name != "chromium":
        return
    for page in pages:
        session = yield from _debugger(context, page, debuggers)
        if session is None:
            continue
        tree = yield from quietly(session.send, "DOM.getDocument", {"depth": -1, "pierce": True})
        for root in closed_roots(tree["root"] if tree else {}):
            held = yield from quietly(session.send, "DOM.resolveNode", {"backendNodeId": root})
            if held:
                call = {"objectId": held["object"]["objectId"], "functionDeclaration": OBSERVE}
                yield from quietly(session.send, "Runtime.callFunctionOn", call)
        # Otherwise the browser would report every change of every node.
        yield from quietly(session.send, "DOM.disable")


def _debugger(context: Any, page: Any, debuggers: list[tuple[Any, Any]]) -> Steps:
    """Return the debugger of a page; each page has one. None if the page is closing."""
    session = next((held for one, held in debuggers if one == page), None)
    if session is None:
        session = yield from quietly(context.new_cdp_session, page)
        if session is not None:
            debuggers.append((page, session))
    return session


def closed_roots(node: dict[str, Any]) -> list[int]:
    """Return the numbers of the closed shadow roots in a tree of Chromium's debugger."""
    found, todo = [], [node]
    while todo:
        node = todo.pop()
        for root in node.get("shadowRoots", ()):
            if root.get("shadowRootType") == "closed":
                found.append(root["backendNodeId"])
            todo.append(root)
        todo += node.get("children", ())
        if "contentDocument" in node:
            todo.append(node["contentDocument"])
    return found
