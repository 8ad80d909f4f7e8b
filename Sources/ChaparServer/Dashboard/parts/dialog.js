// Dialogs. Harm asks first: what would happen is counted by a dry run, the button says what it does to how many, and a
// large number is typed.

const askedToType = 1000;
let openDialogs = [];

/**
 * Opens a dialog; `draw(dialog)` describes it, `dialog.close(result)` ends it. Gives the result; undefined for Escape.
 */
function openDialog(draw, { name, onClose } = {}) {
  const opener = document.activeElement;
  const node = document.createElement("dialog");
  node.dataset.dialog = name ?? "";
  document.body.append(node);
  return new Promise(done => {
    let result;
    const dialog = { node, redraw: () => patch(node, draw(dialog)), close: value => { result = value; node.close(); } };
    node.addEventListener("close", () => {
      openDialogs = openDialogs.filter(one => one !== dialog);
      onClose?.();
      node.remove();
      if (opener?.isConnected) opener.focus(); else focusSomewhere();
      done(result);
    });
    openDialogs.push(dialog);
    dialog.redraw();
    node.showModal();
    (node.querySelector("[autofocus]") ?? node.querySelector("button"))?.focus();
  });
}
/** Closes what is open, as if the person had left it. */
function closeDialogs() {
  while (openDialogs.length) openDialogs.pop().node.close();
}
function dialogHead(title) {
  return el("h2", { id: "dialog-title", key: "title", tabindex: "-1" }, title);
}

/**
 * Asks before harm. `preview(values, signal)` makes the dry run and gives {title, lines, verb, count} and, where an
 * action on none makes sense, `isReady`, `fields(values, change)`
 * describes what can be chosen, `run(values, key, preview)` carries it out. `mustType` wants the number typed in any
 * case.
 * Gives what `run` gave; undefined where the person left it.
 */
function confirmAction({ name, title, values = {}, fields, preview, run, mustType = false }) {
  const state = { values, shown: null, error: null, isRunning: false, typed: "", key: actionKey(), controller: null };
  const load = async dialog => {
    state.controller?.abort();
    const own = state.controller = new AbortController();
    [state.shown, state.error] = [null, null];
    dialog.redraw();
    try { state.shown = await preview(state.values, own.signal);
      } catch (error) { if (!isAbort(error)) state.error = error; }
    if (state.controller === own && dialog.node.isConnected) dialog.redraw();
  };
  const start = async dialog => {
    if (state.isRunning || !state.shown) return;
    [state.isRunning, state.error] = [true, null];
    dialog.redraw();
    try { return dialog.close({ done: await run(state.values, state.key, state.shown) });
      } catch (error) { state.error = error; }
    state.isRunning = false;
    dialog.redraw();
  };
  let isLoaded = false;
  const draw = dialog => {
    if (!isLoaded) {
      isLoaded = true;
      queueMicrotask(() => load(dialog));
    }
    const change = more => { Object.assign(state.values, more); state.key = actionKey(); load(dialog); };
    return confirmForm(dialog, state, { title, fields: fields?.(state.values, change), mustType, start });
  };
  return openDialog(draw, { name, onClose: () => state.controller?.abort() }).then(result => {
    // There was nothing to do, since it happened elsewhere: the view is to show that.
    if (!result && state.shown?.count === 0 && !state.shown.isReady && !current.isLoading) ctx.reload();
    return result?.done;
  });
}
function confirmForm(dialog, state, { title, fields, mustType, start }) {
  const { shown } = state, count = shown?.count ?? 0;
  const isTyped = !(mustType || count > askedToType) || Number(latinDigits(state.typed)) === count;
  const isReady = shown && (shown.isReady ?? count > 0) && isTyped && !state.isRunning && !isLost();
  return el("form", { method: "dialog", "aria-labelledby": "dialog-title",
      onsubmit: event => { event.preventDefault(); if (isReady) start(dialog); } },
    dialogHead(shown?.title ?? title),
    fields,
    !shown && !state.error && el("p", { class: "soft", key: "counting" }, text("base.counting")),
    shown && el("div", { key: "lines", "data-count": count }, (shown.lines ?? []).map(line => el("p", null, line))),
    shown && (mustType || count > askedToType) &&
      field({ name: "typed", label: text("base.type_number", { number: String(count) }), inputmode: "numeric",
      autocomplete: "off", value: state.typed,
      oninput: event => { state.typed = event.target.value.trim(); dialog.redraw(); } }),
    state.error && el("p", { class: "bad", role: "alert", key: "error" }, refusalWords(state.error)),
    el("p", { class: "buttons", key: "buttons" },
      el("button", { type: "button", autofocus: true, key: "cancel", onclick: () => dialog.close() },
        text("base.leave_it")),
      el("button", { type: "submit", class: "harm", key: "do", "data-action": "confirm", disabled: !isReady,
          "aria-busy": state.isRunning ? "true" : null },
        shown?.verb ?? title)));
}
