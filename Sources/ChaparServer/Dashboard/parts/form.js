// Fields and buttons.

let fieldCount = 0;
const fieldIDs = new Map();
/** The id of a field, the same at each drawing. */
function fieldID(name) {
  if (!fieldIDs.has(name)) fieldIDs.set(name, "f" + ++fieldCount);
  return fieldIDs.get(name);
}

/**
 * A field with its label, help and error. `props` are those of the input; `tag` may be textarea or select (with
 * children).
 */
function field({ name, label, help, error, tag = "input", children = [], ...props }) {
  const id = fieldID(name), notes = [help && id + "h", error && id + "e"].filter(Boolean).join(" ");
  return el("div", { class: "field", key: "field-" + name },
    el("label", { for: id }, label),
    el(tag, { id, name, "aria-describedby": notes || null, "aria-invalid": error ? "true" : null, ...props }, children),
    help && el("p", { id: id + "h", class: "note" }, help),
    error && el("p", { id: id + "e", class: "bad error" }, error));
}
/** A box to tick. */
function checkbox({ name, label, ...props }) {
  const id = fieldID(name);
  return el("p", { class: "check", key: "field-" + name }, el("input", { type: "checkbox", id, name, ...props }), " ",
    el("label", { for: id }, label));
}
/** A choice of one; options are [value, words]. */
function choice({ options, value, ...more }) {
  return field({ ...more, tag: "select", value,
      children: options.map(([one, shown]) => el("option", { value: one, key: one, selected: one === value },
          shown)) });
}

/** The actions that are being carried out. */
const busy = new Set();
/**
 * A button that does something: absent where the key may not, off while the gateway is away. While it is carried out a
 * second
 * press does nothing; it is not switched off then, since it would lose the focus.
 * `run` is awaited; a refusal is told. `id` tells two buttons of the same action apart. The element has
 * `data-action=name`, by which tests find it.
 */
function actionButton({ name, id = "", action = name, label, run, kind = "", title }) {
  if (!can(action)) return null;
  const key = name + " " + id;
  return el("button", { type: "button", class: kind, key: "action-" + key, "data-action": name, title,
    disabled: isLost(), "aria-busy": busy.has(key) ? "true" : null,
    onclick: () => perform(key, run) }, label);
}
async function perform(key, run) {
  if (busy.has(key)) return;
  busy.add(key);
  requestDraw();
  try { await run(); } catch (error) {
    if (!isAbort(error)) complain(error);
  } finally {
    busy.delete(key);
    requestDraw();
  }
}
/** Copies the raw bytes of a text. */
function copyButton(value, label = text("base.copy")) {
  return el("button", { type: "button", class: "plain", title: label, "aria-label": label, "data-action": "copy",
    onclick: async () => { await navigator.clipboard.writeText(value); toast(text("base.copied")); } }, icon("copy"));
}

/** What a refusal says, in words and with its places. */
function refusalWords(error) {
  if (!(error instanceof Refusal)) return [text("base.failed")];
  if (error.status === 403 && error.missingScope)
    return [...pieces("base.lacks_scope", { scope: code(error.missingScope) })];
  const parts = [words(error.title ?? String(error.status))];
  if (error.detail) parts.push(" ", words(error.detail));
  for (const one of (error.errors ?? []).slice(0, 5)) parts.push(" ", code(one.pointer), " ", words(one.detail));
  return parts;
}
