// The drawing: a view describes what is to be seen, and `patch` changes what is there into that. Nodes that stay keep
// their focus, their selection and what is typed into them. No markup is ever made of a text.

/**
 * Describes an element. `props` is a class, or attributes: `key` names it among its siblings, functions named `on…` are
 * called for events, `ref` is called with the node when it is made. Null, false and empty texts draw nothing.
 */
function el(tag, props, ...children) {
  return { tag, props: typeof props === "string" ? { class: props } : props ?? {}, children: flattened(children) };
}

/** The list without what draws nothing; lists within it are taken apart. */
function flattened(children) {
  return children.flat(Infinity).filter(one => one != null && one !== false && one !== "")
    .map(one => typeof one === "object" ? one : String(one));
}

/** What each node was made of. */
const drawnFrom = new WeakMap();

/** Changes the children of a node into what is wanted. */
function patch(parent, ...wanted) {
  const list = flattened(wanted);
  const wantedKeys = new Set(list.map(one => one.props?.key).filter(key => key != null));
  const kept = new Map();
  for (const node of [...parent.childNodes]) {
    const key = drawnFrom.get(node)?.props?.key;
    if (key == null) continue;
    if (wantedKeys.has(key)) kept.set(key, node); else node.remove();
  }
  let place = parent.firstChild;
  for (const one of list) {
    const key = one.props?.key;
    let node = key != null ? kept.get(key) : place;
    if (node && !isLike(node, one)) node = null;
    if (node) {
      if (node === place) place = place.nextSibling; else parent.insertBefore(node, place);
      update(node, one);
    } else {
      parent.insertBefore(made(one, parent), place);
    }
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}

/** Whether a node can become what is wanted. */
function isLike(node, wanted) {
  const old = drawnFrom.get(node);
  if (old === undefined) return false;
  if (typeof wanted === "string") return typeof old === "string";
  return old.tag === wanted.tag && (old.props.key ?? null) === (wanted.props.key ?? null);
}

function made(wanted, parent) {
  if (typeof wanted === "string") {
    const node = document.createTextNode(wanted);
    drawnFrom.set(node, wanted);
    return node;
  }
  const space = wanted.tag === "svg" ? "http://www.w3.org/2000/svg" : parent.namespaceURI;
  const node = document.createElementNS(space, wanted.tag);
  drawnFrom.set(node, { tag: wanted.tag, props: { key: wanted.props.key }, children: [] });
  update(node, wanted);
  wanted.props.ref?.(node);
  return node;
}

function update(node, wanted) {
  const old = drawnFrom.get(node);
  drawnFrom.set(node, wanted);
  if (typeof wanted === "string") {
    if (old !== wanted) node.data = wanted;
    return;
  }
  for (const name in old.props) if (!(name in wanted.props)) setProperty(node, name, null);
  // The children come first: a `value` of a choice needs its options.
  patch(node, wanted.children);
  for (const name in wanted.props) if (old.props[name] !== wanted.props[name])
    setProperty(node, name, wanted.props[name]);
}

/** Sets an attribute, a function, or a property that a person can change too. */
function setProperty(node, name, value) {
  if (name === "key" || name === "ref") return;
  if (name.startsWith("on")) node[name] = value ?? null;
  else if (name === "value") { if (node.value !== (value ?? "")) node.value = value ?? ""; }
  else if (name === "checked" || name === "open") node[name] = Boolean(value);
  else if (value == null || value === false) node.removeAttribute(name);
  else node.setAttribute(name, value === true ? "" : value);
}

const $ = id => document.getElementById(id);
