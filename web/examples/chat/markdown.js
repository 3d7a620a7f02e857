/**
 * An answer's Markdown as elements. Nothing is parsed as HTML: each token of markdown-it becomes an
 * element or a text node, and HTML in the answer is text.
 *
 * What is shown already stays in place: only nodes that differ are replaced, and text that grows is
 * appended. While an answer comes, remend closes what is still open, so that no markers flash.
 */

import MarkdownIt from "markdown-it";
import remend from "remend";

/** @typedef {{tag: string, attrs: [string, string][], children: (Shape | string)[]}} Shape */

const parser = new MarkdownIt({ html: false, linkify: false, breaks: true }).disable([
  "image", // nothing is loaded from elsewhere
  "lheading", // a line would become a heading when the next begins with a dash
]);

/** @param {string} text @param {boolean} growing @returns {(Shape | string)[]} */
function shapes(text, growing) {
  const root = /** @type {Shape} */ ({ tag: "", attrs: [], children: [] });
  const open = [root];
  const add = (/** @type {Shape | string} */ child) => {
    const { children } = /** @type {Shape} */ (open.at(-1));
    const last = children.at(-1);
    if (typeof child === "string" && typeof last === "string")
      children[children.length - 1] += child;
    else children.push(child);
  };
  const take = (/** @type {ReturnType<typeof parser.parse>[number]} */ token) => {
    const { type, tag, nesting, content, children, hidden } = token;
    if (type === "inline") children?.forEach(take);
    else if (type === "text") add(content);
    else if (type === "softbreak" || type === "hardbreak") add("\n");
    else if (hidden) return;
    else if (nesting < 0) open.pop();
    else if (!tag) add(content);
    else {
      const shape = {
        tag,
        attrs: safe(/** @type {[string, string][]} */ (token.attrs ?? [])),
        children: content ? [content] : [],
      };
      add(tag === "code" && token.block ? { tag: "pre", attrs: [], children: [shape] } : shape);
      if (nesting) open.push(shape);
    }
  };
  parser.parse(growing ? remend(certain(text)) : text, {}).forEach(take);
  return root.children;
}

/**
 * Leave out what the next characters may turn into markup: the head of a table, markers at the end.
 * @param {string} text
 */
const certain = (text) =>
  text
    .replace(/(^|\n\n)\|[^\n]*(\n[|:\- ]*)?$/, "$1")
    .replace(/(^|\n) *(\d+[.)]?|[-+]|>|#{1,6})$/, "$1")
    .replace(/[*_`~[!]+$/, "");

/**
 * Return the attributes that may be set.
 * @param {[string, string][]} attrs
 * @returns {[string, string][]}
 */
const safe = (attrs) =>
  attrs.flatMap(([name, value]) =>
    name === "href" && /^(https?:|mailto:)/i.test(value)
      ? [
          [name, value],
          ["rel", "noreferrer"],
          ["target", "_blank"],
        ]
      : name === "start"
        ? [[name, value]]
        : [],
  );

/**
 * Make an element's nodes those of the shapes.
 * @param {Element} element
 * @param {(Shape | string)[]} wanted
 */
function patch(element, wanted) {
  wanted.forEach((shape, n) => {
    const node = element.childNodes[n];
    if (typeof shape === "string") {
      if (node instanceof Text && shape.startsWith(node.data)) {
        if (shape.length > node.length) node.appendData(shape.slice(node.length));
      } else replace(element, node, document.createTextNode(shape));
      return;
    }
    const same = node instanceof Element && node.localName === shape.tag;
    const its = same ? node : document.createElement(shape.tag);
    for (const [name, value] of shape.attrs)
      if (its.getAttribute(name) !== value) its.setAttribute(name, value);
    patch(its, shape.children);
    if (!same) replace(element, node, its);
  });
  while (element.childNodes.length > wanted.length) element.lastChild?.remove();
}

/** @param {Element} parent @param {ChildNode | undefined} old @param {Node} node */
function replace(parent, old, node) {
  if (old) old.replaceWith(node);
  else parent.append(node);
}

/**
 * Show Markdown in an element.
 * @param {Element} element
 * @param {string} text
 * @param {boolean} growing  Whether more text may come.
 */
export const showMarkdown = (element, text, growing) => patch(element, shapes(text, growing));
