// The frame around the view: the header, the navigation, the notice of a lost connection, the form for the key,
// settings and help.

/** The navigation: path, texts key, letter, shape, and whether it stands in the bar of a phone. */
const navItems = [
  ["/", "now", "N", true], ["/messages", "messages", "M", true], ["/dead", "dead", "D", true],
  ["/audiences", "audiences", "A", false],
  ["/backends", "backends", "B", true], ["/quarantine", "quarantine", "Q", false],
  ["/webhooks", "webhooks", "W", false], ["/keys", "keys", "K", false],
];
/** Numbers beside the navigation's words, by path: what needs a hand. */
const badges = {};
function setBadge(path, count) {
  if (badges[path] === count) return;
  badges[path] = count;
  requestDraw();
}

function drawShell() {
  $("skip").textContent = text("base.skip");
  patch($("header"), header());
  $("nav").setAttribute("aria-label", text("base.nav"));
  patch($("nav"), live.connection === "key" ? null : navigation());
  $("banner").setAttribute("aria-label", text("base.notices"));
  patch($("banner"), banner());
  $("main").classList.toggle("lost", isLost());
}

const searchState = {};
function header() {
  const isAsking = live.connection === "key", isAtMessages = current.path === "/messages";
  return [
    el("a", { class: "brand", href: "#/", key: "brand" }, "Chapar"),
    !isAsking && !isAtMessages && hasScope(["read"]) && el("div", { class: "header-search", key: "search" },
      filterBar({ name: "header", params: {}, state: searchState, redraw: requestDraw, help: false,
          onSearch: params => go("/messages", params) })),
    el("p", { class: "connection " + ({ live: "good", lost: "bad", refused: "wait" }[live.connection] ?? "soft"),
        role: "status", key: "connection", "data-connection": live.connection },
      icon(isLost() ? "failed" : "dot", live.connection === "live" ? "filled" : ""), " ",
      el("span", null, text("base.connection_" + (live.connection === "refused" ? "none" : live.connection)))),
    !isAsking && el("a",
      { class: "icon-link phone-only", href: "#/messages", key: "find", "aria-label": text("filter.label"),
        title: text("filter.label"), onclick: () => { wantsSearch = true; } }, icon("search")),
    !isAsking && can("send") &&
      el("a", { class: "button wide-only", href: "#/send", "data-nav": "/send", key: "send" }, text("base.nav_send")),
    el("button", { type: "button", class: "plain", key: "menu", "data-action": "settings",
        "aria-label": text("base.settings"), title: text("base.settings"), onclick: showSettings }, icon("menu"))];
}

let isMoreOpen = false;
function navigation() {
  const known = navItems.filter(([path]) => { const view = views.find(one => one.path === path);
      return view && hasScope(view.needs); });
  const item = ([path, name, letter], props) => {
    const isHere = path === "/" ? current.path === "/" : current.path.startsWith(path);
    return el("li", { key: path, class: props },
      el("a", { href: href(path), "data-nav": path, "aria-current": isHere ? "page" : null,
          title: text("base.nav_letter", { letter }),
      onclick: () => { isMoreOpen = false; } },
      el("span", null, text("base.nav_" + name)),
      badges[path] > 0 && el("span", { class: "badge", "data-badge": path }, " ", compact(badges[path]))));
  };
  const more = known.filter(([, , , isMain]) => !isMain);
  return [
    el("ul", { key: "items", class: isMoreOpen ? "more-open" : "" }, known.map(one => item(one, one[3] ? "" : "more")),
      can("send") && item(["/send", "send", "C"], "more send"),
      (more.length > 0 || can("send")) &&
        el("li", { key: "more", class: "more-button" },
        el("button", { type: "button", "aria-expanded": String(isMoreOpen),
        onclick: () => { isMoreOpen = !isMoreOpen; requestDraw(); } }, text("base.nav_more"))))];
}

function banner() {
  const parts = [];
  if (["lost", "refused"].includes(live.connection)) {
    const refusal = live.refusal;
    const wait = Math.max(0, Math.ceil((live.nextTry - Date.now()) / 1000));
    parts.push(el("div",
        { class: isLost() ? "banner bad" : "banner wait", key: "lost", "data-banner": live.connection },
      el("p", null, icon(isLost() ? "failed" : "warning"), " ",
        refusal ? pieces("base.stream_refused",
          { status: code(refusal.status), detail: words(refusal.detail || refusal.title || "") })
        : pieces("base.lost", { time: live.lostSince ? clock(live.lostSince) : "–" }), " ",
        el("span", { "aria-live": "off" }, text("base.next_try", { wait: duration(wait) }))),
      el("button", { type: "button", onclick: tryNow, "data-action": "try-now" }, text("base.now"))));
  }
  if (Math.abs(live.skew) > 5000)
    parts.push(el("p", { class: "banner wait", key: "skew", "data-banner": "skew" },
      text("base.skew", { difference: duration(Math.abs(live.skew) / 1000) })));
  return parts;
}

// The key

function askForKey(reason, values = {}) {
  closeDialogs();
  session.reason = reason ?? null;
  session.reasonValues = values;
  if (reason === "key.unknown" || reason === "key.idle" || reason === null) forgetKey();
  stopListening();
  setConnection("key");
  requestDraw();
}
function forgetKey() {
  session.key = null;
  session.own = null;
  keep("sessionStorage", "chapar-key", null);
  live.lanes = null;
  live.notes = [];
  current.data = null;
}
function keyForm() {
  const scope = matched(location.hash).view?.needs?.[0] ?? "read";
  return [el("h1", { key: "h1", tabindex: "-1" }, text("key.heading")),
    el("form", { class: "card form", key: "form", "data-form": "key", "aria-label": text("key.heading"),
        onsubmit: useKey },
      session.reason && el("p", { class: "bad", role: "alert", "data-reason": session.reason },
        pieces(session.reason, session.reasonValues)),
      field({ name: "key", label: text("key.label"), help: text("key.help"), type: "password", dir: "ltr",
          autocomplete: "off", spellcheck: "false", required: true,
        ref: node => requestAnimationFrame(() => node.focus()) }),
      checkbox({ name: "keep", label: text("key.keep") }),
      el("p", "buttons", el("button", { type: "submit", class: "main" }, text("key.use"))),
      el("p", "note", text("key.make", { scope })),
      command("chapar keys create --name page --scope " + scope))];
}
async function useKey(event) {
  event.preventDefault();
  const form = event.target;
  session.key = form.elements.key.value.trim();
  session.reason = null;
  keep("sessionStorage", "chapar-key", form.elements.keep.checked ? session.key : null);
  form.elements.key.value = "";
  await begin();
}
function leave() {
  askForKey(null);
}

// Settings and help

function showSettings() {
  const pick = (name, dialog) => event => {
    choose(name, event.target.value);
    applyChoices();
    dialog.redraw();
  };
  openDialog(dialog => el("form", { method: "dialog", "aria-labelledby": "dialog-title" },
    dialogHead(text("base.settings")),
    session.own?.name &&
      el("p", { key: "own" },
      pieces("base.own_key", { name: code(session.own.name), scopes: listOf(session.own.scopes ?? []) })),
    choice({ name: "language", autofocus: true, label: text("base.language"), value: language,
        options: Object.entries(languageNames), onchange: pick("language", dialog) }),
    choice({ name: "theme", label: text("base.theme"), value: choices.theme,
        options: ["system", "light", "dark"].map(one => [one, text("base.theme_" + one)]),
        onchange: pick("theme", dialog) }),
    choice({ name: "times", label: text("base.times"), value: choices.times,
        options: ["relative", "exact"].map(one => [one, text("base.times_" + one)]), onchange: pick("times", dialog) }),
    choice({ name: "zone", label: text("base.zone"), value: choices.zone, options: zoneOptions(),
        onchange: pick("zone", dialog) }),
    language !== "en" &&
      choice({ name: "digits", label: text("base.digits"), value: choices.digits,
        options: ["own", "latin"].map(one => [one, text("base.digits_" + one)]), onchange: pick("digits", dialog) }),
    choice({ name: "letters", label: text("base.letters"), value: choices.letters,
        options: ["on", "off"].map(one => [one, text("base.letters_" + one)]), onchange: pick("letters", dialog) }),
    choice({ name: "idle", label: text("base.idle"), value: choices.idle ?? "on",
        options: ["on", "off"].map(one => [one, text("base.idle_" + one)]), onchange: pick("idle", dialog) }),
    el("p", "buttons",
      session.key && el("button",
        { type: "button", "data-action": "leave", key: "leave", onclick: () => { dialog.close(); leave(); } },
        text("base.leave")),
      el("button", { type: "button", key: "help", onclick: () => { dialog.close(); showHelp(); } }, text("base.help")),
      el("button", { type: "submit", class: "main", key: "close" }, text("base.close")))), { name: "settings" });
}
function zoneOptions() {
  const own = Intl.DateTimeFormat().resolvedOptions().timeZone;
  return [["", text("base.zone_own", { zone: own })],
    ...["UTC", "Asia/Tehran", "Europe/Moscow", "Europe/Berlin"].filter(one => one !== own).map(one => [one, one])];
}
function showHelp() {
  const keys = [["/", "search"], ["?", "help"], ["g", "go"], ["j k", "rows"], ["Enter", "open"], ["x", "select"],
    ["a", "menu"], ["r", "newer"], ["t", "times"], ["z", "undo"], ["Esc", "back"]];
  openDialog(dialog => el("form", { method: "dialog", "aria-labelledby": "dialog-title" },
    dialogHead(text("help.title")),
    el("dl", "facts keys",
      keys.map(([key, name]) => el("div", { key: name }, el("dt", null, el("kbd", { dir: "ltr" }, key)),
          el("dd", null, text("help." + name))))),
    el("p", null, text("help.go_letters"), " ",
      listOf(navItems.map(([, name, letter]) => text("help.letter",
            { letter: letter.toLowerCase(), name: text("base.nav_" + name) })))),
    el("p", "buttons", el("button", { type: "submit", class: "main", key: "close" }, text("base.close")))),
    { name: "help" });
  return true;
}
function toggleTimes() {
  choose("times", choices.times === "exact" ? "relative" : "exact");
  refreshTimes();
  return true;
}
let wantsSearch = false;
function focusSearch(start) {
  const box = [...document.querySelectorAll("[data-search]")].find(one => one.offsetParent);
  if (!box) {
    wantsSearch = true;
    location.hash = "/messages";
    return true;
  }
  if (start && !box.value) box.value = start;
  box.focus();
  return true;
}
