// Short notices: the outcome of an action, with Undo where it can be undone. And what a screen reader is told.

const toasts = [];
const mostToasts = 3, toastSeconds = 10, statusSeconds = 5;
let toastCount = 0;

/** Shows a sentence; `undo` is awaited when a person wants it back. It stays while it is hovered or focused. */
function toast(sentence, { undo, tone = "" } = {}) {
  const one = { id: ++toastCount, sentence, undo, tone, until: Date.now() + toastSeconds * 1000, isHeld: false };
  toasts.push(one);
  while (toasts.length > mostToasts) toasts.shift();
  if (tone !== "bad") announce(typeof sentence === "string" ? sentence : "");
  drawToasts();
}
/** Tells of a refused action. */
function complain(error) {
  toast(refusalWords(error), { tone: "bad" });
}
function drawToasts() {
  keepingFocus(() => patch($("toasts"), toasts.map(one => el("div",
        { key: one.id, class: "toast " + one.tone, role: one.tone === "bad" ? "alert" : null,
    onmouseenter: () => { one.isHeld = true; }, onmouseleave: () => release(one),
    onfocusin: () => { one.isHeld = true; }, onfocusout: () => release(one) },
    el("span", null, one.sentence),
    one.undo && el("button", { type: "button", "data-action": "undo", onclick: () => undo(one) }, text("base.undo")),
    el("button", { type: "button", class: "plain", "aria-label": text("base.close"), onclick: () => dismiss(one) },
      icon("failed"))))));
}
function release(one) {
  one.isHeld = false;
  one.until = Math.max(one.until, Date.now() + 3000);
}
function dismiss(one) {
  const index = toasts.indexOf(one);
  if (index >= 0) toasts.splice(index, 1);
  drawToasts();
}
async function undo(one) {
  dismiss(one);
  try {
    await one.undo();
    toast(text("base.undone"));
  } catch (error) { complain(error); }
}
function expireToasts() {
  const stays = toasts.filter(one => one.isHeld || one.until > Date.now());
  if (stays.length === toasts.length) return;
  toasts.splice(0, toasts.length, ...stays);
  drawToasts();
}

let waitingStatus = "", statusTimer = 0, statusAt = 0;
/** Tells a screen reader the newest sentence, at most one each five seconds. */
function announce(sentence) {
  waitingStatus = sentence;
  statusTimer ||= setTimeout(() => {
    statusTimer = 0;
    statusAt = Date.now();
    $("announcement").textContent = waitingStatus;
  }, Math.max(50, statusAt + statusSeconds * 1000 - Date.now()));
}
