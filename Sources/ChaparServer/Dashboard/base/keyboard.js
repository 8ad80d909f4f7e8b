// The keyboard. Letters are told by the place of their key (`event.code`), so that other layouts work; none is read in
// a
// field, with a modifier, or where the person has switched them off.

const navKeys = { KeyN: "/", KeyM: "/messages", KeyD: "/dead", KeyA: "/audiences", KeyB: "/backends",
  KeyQ: "/quarantine",
  KeyW: "/webhooks", KeyK: "/keys", KeyC: "/send", KeyU: "/users" };
let isAfterG = 0;

function onKey(event) {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  const dialog = document.querySelector("dialog[open]");
  if (event.key === "Escape" && !dialog) return onEscape(event);
  const target = event.target;
  if (dialog || choices.letters === "off" || target.closest?.("input, textarea, select, [contenteditable]")) return;
  const done = isAfterG && Date.now() - isAfterG < 1500 ? goTo(event) : onLetter(event);
  isAfterG = !done && event.code === "KeyG" ? Date.now() : 0;
  if (done || isAfterG) event.preventDefault();
}
function goTo(event) {
  const path = navKeys[event.code];
  if (path === "/users") { focusSearch("user:"); return true; }
  const view = path && views.find(one => one.path === path);
  if (!view || !hasScope(view.needs)) return false;
  location.hash = path;
  return true;
}
function onLetter(event) {
  const row = document.activeElement?.closest?.("[data-row]");
  if (event.key === "/" || event.code === "Slash" && !event.shiftKey) return focusSearch();
  if (event.key === "?" || event.code === "Slash" && event.shiftKey) return showHelp();
  switch (event.code) {
    case "KeyJ": case "ArrowDown": return moveRow(row, 1, event);
    case "KeyK": case "ArrowUp": return moveRow(row, -1, event);
    case "KeyX": return press(row?.querySelector("[data-select]"));
    case "KeyA": return press(row?.querySelector("[data-menu]")) || focusAction(row);
    case "KeyR": return press(document.querySelector("[data-newer]")) ||
      press(document.querySelector("[data-action=retry-load]"));
    case "KeyT": return toggleTimes();
    case "KeyZ": return press([...document.querySelectorAll("#toasts [data-action=undo]")].at(-1));
  }
  return false;
}
function press(node) {
  node?.click();
  return Boolean(node);
}
/** Goes to the first action of a row, else to those for the rows that are selected. */
function focusAction(row) {
  const own = row?.querySelector("[data-action]:not(:disabled)");
  const node = own ?? document.querySelector(".bar-bottom [data-action]:not(:disabled)");
  node?.focus();
  return Boolean(node);
}
/** Goes to the next row, or the one before; with Shift the rows on the way are selected. */
function moveRow(row, step, event) {
  const rows = [...document.querySelectorAll("main [data-row]")];
  const isArrow = event.code.startsWith("Arrow");
  if (!rows.length || isArrow && !row) return false;
  const next = rows[row ? Math.min(rows.length - 1, Math.max(0, rows.indexOf(row) + step)) : 0];
  const link = next.querySelector("a, button, summary, input");
  if (!link) return false;
  if (event.shiftKey && isArrow) for (const one of [row, next]) {
    const box = one?.querySelector("[data-select]");
    if (box && !box.checked) box.click();
  }
  (next.querySelector("[data-open]") ?? link).focus();
  next.scrollIntoView({ block: "nearest" });
  return true;
}
/** Escape leaves a field, else goes back to the list that the view was opened from. */
function onEscape(event) {
  const menu = event.target.closest?.("details[open].menu");
  if (menu) {
    menu.open = false;
    menu.firstElementChild.focus();
  } else if (event.target.matches?.("input, textarea, select")) {
    event.target.blur();
    $("main").focus();
  } else if (document.querySelector("[data-back]")) {
    history.length > 1 && cameFromHere() ? history.back() : document.querySelector("[data-back]").click();
  }
}
