// The life of a view: its address is matched, its data are loaded, it is drawn, and it is told what the stream brings.

const current = { view: null, path: "/", params: {}, data: null, error: null, state: {}, isStarting: true,
  isLoading: false, isSlow: false, isBare: false, controller: null, entry: null, loadedAt: 0 };
/** What each entry of the history had: its state, its place, and the row that had the focus. */
const entries = new Map();
const keptEntries = 50, frameMilliseconds = 500, skeletonMilliseconds = 300, slowMilliseconds = 5000, idleMinutes = 30;
/** The page of a list that is shown, of which the next one is read from its beginning. */
let shownCursor;
let entryCount = 0, isDrawPlanned = false, lastLiveDraw = 0, liveTimer = 0, lastInput = Date.now();
const cameFromHere = () => entries.size > 1;

/** What a view may use while it is drawn. */
const ctx = {
  get params() { return current.params; },
  get state() { return current.state; },
  get lanes() { return live.lanes; },
  redraw: () => requestDraw(),
  reload: () => reload(),
};

// Opening

function open() {
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (code) return redeemLink(code).then(begin);
  rememberPlace();
  const found = matched(location.hash), isSamePath = found.path === current.path && current.view === found.view;
  current.controller?.abort();
  closeDialogs();
  const entry = history.state?.entry ?? "e" + ++entryCount + "-" + Date.now();
  if (!history.state?.entry) history.replaceState({ entry }, "");
  const known = entries.get(entry);
  Object.assign(current, found,
    { entry, error: null, state: known?.state ?? {}, data: isSamePath ? current.data : null, isBare: false,
      isStarting: false });
  if (!entries.has(entry)) entries.set(entry, { state: current.state });
  if (entries.size > keptEntries) entries.delete(entries.keys().next().value);
  isMoreOpen = false;
  return load(known, isSamePath);
}
function rememberPlace() {
  const entry = entries.get(current.entry);
  if (!entry) return;
  entry.scroll = scrollY;
  entry.row = document.activeElement?.closest?.("[data-row]")?.dataset.row;
}
function reopen() {
  current.controller?.abort();
  Object.assign(current, matched(location.hash));
  return load(null, true);
}

async function load(known, isSamePath) {
  const { view } = current;
  // A load before this one, which has no answer yet, would keep its place among the requests.
  if (current.isLoading) current.controller?.abort();
  const controller = current.controller = new AbortController();
  if (!view || !hasScope(view.needs)) {
    // A load of the view before, which was given up, does not end by itself.
    Object.assign(current, { data: null, isLoading: false, isSlow: false });
    draw();
    if (!isSamePath) $("main").querySelector("h1")?.focus();
    return;
  }
  current.isLoading = true;
  [current.isSlow, current.isBare] = [false, !current.data];
  const isBareAtFirst = current.isBare;
  const timers = [setTimeout(requestDraw, skeletonMilliseconds),
    setTimeout(() => { current.isSlow = true; requestDraw(); }, slowMilliseconds)];
  if (isBareAtFirst) drawFrame();
  try {
    const data = await view.load(current.params, controller.signal);
    if (current.controller !== controller) return;
    Object.assign(current, { data, error: null, loadedAt: Date.now() });
  } catch (error) {
    if (isAbort(error) && current.controller !== controller) return;
    current.error = isAbort(error) ? new Refusal({ title: text("base.stopped") }) : error;
    if (!(error instanceof Refusal) && !isAbort(error)) console.error(error);
  } finally {
    timers.forEach(clearTimeout);
    if (current.controller === controller) [current.isLoading, current.isSlow, current.isBare] = [false, false, false];
  }
  if (current.controller !== controller) return;
  draw();
  const isOtherPage = shownCursor !== current.params.cursor;
  shownCursor = current.params.cursor;
  if (!isSamePath || isBareAtFirst || known || isOtherPage) putBack(known);
}
/** Goes on where the person was, else to the heading of the view. */
function putBack(known) {
  const row = known?.row && document.querySelector(`[data-row="${CSS.escape(known.row)}"]`);
  scrollTo(0, known?.scroll ?? 0);
  if (live.connection === "key") return;
  if (wantsSearch) {
    wantsSearch = false;
    focusSearch();
  } else if (row) {
    (row.querySelector("[data-open]") ?? row.querySelector("a, button"))?.focus({ preventScroll: true });
  } else {
    $("main").querySelector("h1")?.focus({ preventScroll: true });
  }
}
function focusSomewhere() {
  ($("main").querySelector("h1") ?? $("main")).focus({ preventScroll: true });
}
/** Reads the view's data again; what is there stays until it comes. */
async function reload() {
  if (!current.view || live.connection === "key") return;
  await load(null, true);
}

// Drawing

/** Draws with the next frame. */
function requestDraw() {
  if (isDrawPlanned) return;
  isDrawPlanned = true;
  requestAnimationFrame(() => { isDrawPlanned = false; draw(); });
}
/** Draws for what came by itself: at most twice a second, and never in a hidden tab. */
function requestLiveDraw() {
  if (document.hidden || liveTimer) return;
  liveTimer = setTimeout(() => { liveTimer = 0; lastLiveDraw = Date.now(); requestDraw(); },
    Math.max(0, lastLiveDraw + frameMilliseconds - Date.now()));
}
function draw() {
  keepingFocus(() => {
    drawShell();
    drawFrame();
  });
}
/** Draws; where what had the focus went, as a button does whose action is done, its row has it, else the heading. */
function keepingFocus(work) {
  const held = document.activeElement, row = held?.closest("[data-row]")?.dataset.row;
  work();
  if (!held || held.isConnected || document.querySelector("dialog[open]")) return;
  const place = row && document.querySelector(`main [data-row="${CSS.escape(row)}"]`);
  const next = place?.querySelector("[data-action]:not(:disabled)") ?? place?.querySelector("[data-open]");
  if (next) next.focus({ preventScroll: true }); else focusSomewhere();
}
function drawFrame() {
  const { view, data } = current, main = $("main");
  const known = view && hasScope(view.needs);
  main.dataset.view = live.connection === "key" ? "key" : view?.path ?? "none";
  main.dataset.load = live.connection === "key" ? "done" : current.isLoading || current.isStarting ? "loading"
    : current.error ? "error" : "done";
  const title = live.connection === "key" ? text("key.heading") : current.isStarting ? text("base.loading") : !view
    ? text("base.not_found") : viewTitle(view, data);
  document.title = title + " · Chapar";
  if (live.connection === "key") return patch(main, keyForm());
  if (current.isStarting) return patch(main);
  if (!view)
    return patch(main, heading(title),
    el("p", { class: "card", key: "gone" }, text("base.no_view"), " ", el("a", { href: "#/" }, text("base.nav_now"))));
  if (!known) return patch(main, heading(title), refusedState(view.needs));
  if (!data) return patch(main, heading(title), current.error ? errorState(current.error) : skeleton());
  let drawn;
  try { drawn = view.draw(data, ctx); } catch (error) {
    console.error(error);
    drawn = [heading(title), errorState(error)];
  }
  patch(main, current.error && errorLine(current.error), current.isSlow && slowLine(), drawn);
}
function viewTitle(view, data) {
  if (typeof view.title === "string") return text(view.title);
  if (data) return view.title(data, ctx);
  return current.error || !hasScope(view.needs) ? Object.values(current.params).at(-1) ?? text("base.not_found")
    : text("base.loading");
}
/** The heading of a view; more stands beside it, such as its buttons. */
function heading(title, ...more) {
  return el("div", { class: "heading", key: "heading" }, el("h1", { tabindex: "-1" }, title),
    more.length > 0 && el("div", "heading-more", more));
}
/** The way back to a list. */
const backLink = (path, words) => el("p", { class: "back", key: "back" },
  el("a", { href: href(path), "data-back": true }, icon("back"), " ", words));

function skeleton() {
  return el("div", { class: "skeleton", key: "skeleton", role: "status", "data-loading": true },
    el("span", "unseen", text("base.loading")),
    [1, 2, 3, 4, 5].map(one => el("div", { class: "bar", key: one })), current.isSlow && slowLine());
}
const slowLine = () => el("p", { class: "card", key: "slow" }, text("base.slow"), " ",
  el("button", { type: "button", onclick: () => current.controller?.abort() }, text("base.stop")));
function refusedState(needs) {
  return el("div", { class: "card", key: "refused", "data-refused": true },
    el("p", null, pieces("base.lacks_scope", { scope: code(needs[0]) })),
    command("chapar keys create --name page --scope " + needs[0]));
}
function errorState(error) {
  if (error.status === 403) return refusedState([error.missingScope ?? current.view.needs?.[0] ?? "read"]);
  const isGone = error.status === 404;
  return el("div", { class: "card", key: "error", [isGone ? "data-gone" : "data-error"]: true },
    el("p", null, isGone ? text("base.gone") : refusalWords(error)),
    isGone && current.view.path === "/messages/:id" && ownOnlyNote(),
    error.request_id && el("p", "note", pieces("base.request", { id: code(error.request_id) })),
    el("p", "buttons", el("button", { type: "button", "data-action": "retry-load", onclick: reload },
        text("base.try_again"))));
}
const ownOnlyNote = () => readsOwnOnly() &&
  el("p", { class: "note", "data-own-only": true }, pieces("base.own_only", { scope: code("read_all") }));
function errorLine(error) {
  return el("div", { class: "banner bad", key: "error-line", "data-error": true },
    el("p", null, text("base.not_fresh", { time: clock(current.loadedAt) }), " ", refusalWords(error)),
    el("button", { type: "button", "data-action": "retry-load", onclick: reload }, text("base.try_again")));
}

// What comes by itself

onNews = news => {
  if (news.connection) { requestDraw(); return; }
  if (news.gap) reload();
  if (news.lanes) countTroubles(news.lanes);
  if (!document.hidden) current.view?.live?.(news, ctx);
  requestLiveDraw();
};
function countTroubles(lanes) {
  setBadge("/backends", lanes.backends.filter(one => isTrouble(one)).length);
  setBadge("/quarantine", lanes.backends.filter(one => one.lane.invalidations_held).length);
}
/** Whether a backend needs a look. */
function isTrouble(backend) {
  const lane = backend.lane ?? backend.worker;
  return Boolean(backend.gone || lane.parked || lane.breaker !== "closed" || lane.invalidations_held ||
    lane.invalidations_quarantined || backend.health.status === "down");
}

// The beginning

function applyChoices() {
  applyLanguage();
  document.documentElement.dataset.theme = choices.theme;
  document.documentElement.style.setProperty("--chip",
    Math.max(...states.map(state => stateWord(state).length)) + "ch");
  draw();
  refreshTimes();
}
/** Asks what the key may do, opens the address, and follows the stream. */
async function begin() {
  if (live.connection === "key") live.connection = "connecting";
  try { session.own = await api.maybe("/v1/key"); } catch (error) {
    if (live.connection === "key") return draw();
    if (error.status === 0) setConnection("lost", { nextTry: Date.now() });
  }
  open();
  listen();
}
/** Exchanges the code of the link that `serve` shows, once; it leaves the address at once. */
async function redeemLink(code) {
  history.replaceState(null, "", location.pathname + location.search);
  try {
    session.key = (await api.post("/v1/dashboard/session", { code })).token;
    keep("sessionStorage", "chapar-key", session.key);
  } catch { session.reason = "key.link"; }
}
function watchIdle() {
  const isIdle = session.key && choices.idle !== "off" && Date.now() - lastInput > idleMinutes * 60000;
  if (isIdle && live.connection !== "key") askForKey("key.idle");
}

$("skip").onclick = event => { event.preventDefault(); $("main").focus(); };
history.scrollRestoration = "manual";
addEventListener("hashchange", open);
addEventListener("keydown", onKey);
for (const name of ["pointerdown", "keydown"])
  addEventListener(name, () => { lastInput = Date.now(); }, { passive: true });
document.addEventListener("visibilitychange", noteVisibility);
// The browser keeps a page that one leaves, for Back: its stream would hold one of the six connections to the gateway.
addEventListener("pagehide", stopListening);
addEventListener("pageshow", event => { if (event.persisted) noteVisibility(); });
let ticks = 0;
setInterval(() => {
  expireToasts();
  watchIdle();
  if (document.hidden) return;
  if (["lost", "refused"].includes(live.connection)) patch($("banner"), banner());
  if (++ticks % 30 === 0 || document.querySelector("[data-fresh]")) refreshTimes();
}, 1000);
choices.idle = kept("localStorage", "chapar-idle") ?? "on";
applyChoices();
begin();
