
"use strict";
// Reads the event stream (GET /v1/events) and draws it. Texts: dashboard-texts.json.
// What the gateway says in its own words (names, reasons, titles) stands in elements of the class "data".

const $ = id => document.getElementById(id);
const retryMilliseconds = 2000, silenceMilliseconds = 10000, announcementMilliseconds = 5000;
const replayed = 1000, pulseSeconds = 120, keptNotifications = 40, keptLines = 60, keptNotes = 30;

// Language

const texts = JSON.parse($("texts").textContent);
const rightToLeft = ["fa"];
let language = "en", formats = {};

/** What was kept by the browser; nothing where it keeps nothing. */
function stored(storage, name) {
  try { return window[storage].getItem(name); } catch { return null; }
}
function store(storage, name, value) {
  try {
    if (value == null) window[storage].removeItem(name); else window[storage].setItem(name, value);
  } catch { /* It is known until the page is left. */ }
}
function preferredLanguage() {
  const wanted = [stored("localStorage", "chapar-language"), ...navigator.languages.map(tag => tag.split("-")[0])];
  return wanted.find(tag => Object.hasOwn(texts, tag)) ?? "en";
}
function applyLanguage(tag) {
  language = tag;
  const locale = navigator.languages.find(one => one.split("-")[0] === tag) ?? tag;
  const unit = name => new Intl.NumberFormat(locale, { style: "unit", unit: name, unitDisplay: "short", maximumFractionDigits: 1 });
  formats = {
    number: new Intl.NumberFormat(locale),
    time: new Intl.DateTimeFormat(locale, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" }),
    date: new Intl.DateTimeFormat(locale, { dateStyle: "medium" }),
    moment: new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeStyle: "short" }),
    relative: new Intl.RelativeTimeFormat(locale, { numeric: "auto" }),
    second: unit("second"), minute: unit("minute"), hour: unit("hour"),
  };
  document.documentElement.lang = tag;
  document.documentElement.dir = rightToLeft.includes(tag) ? "rtl" : "ltr";
  document.title = text("title");
  for (const node of document.querySelectorAll("[data-text]")) node.textContent = text(node.dataset.text);
  for (const node of document.querySelectorAll("[data-label]")) node.setAttribute("aria-label", text(node.dataset.label));
  const other = Object.keys(texts).find(one => one !== tag);
  $("language").lang = other;
  $("language").dir = rightToLeft.includes(other) ? "rtl" : "ltr";
  $("pulse-oldest").textContent = formats.relative.format(-pulseSeconds / 60, "minute");
  $("pulse-middle").textContent = formats.relative.format(-pulseSeconds / 120, "minute");
  drawConnection();
  drawKeyReason();
  drawEverything();
}
/** A text of the table, with values in the place of {names}. */
function text(key, values = {}) {
  return (texts[language][key] ?? key).replace(/\{(\w+)\}/g, (all, name) => values[name] ?? all);
}
const number = n => formats.number.format(n || 0);
const time = at => isNaN(new Date(at)) ? "" : formats.time.format(new Date(at));
const date = at => formats.date.format(new Date(at));
function duration(seconds) {
  if (seconds < 100) return formats.second.format(seconds);
  return seconds < 6000 ? formats.minute.format(Math.round(seconds / 60)) : formats.hour.format(seconds / 3600);
}
function fromNow(at) {
  const days = Math.trunc((new Date(at) - Date.parse(gateway.at)) / 86400000);
  return formats.relative.format(days, "day");
}

// Elements

/** An element with a class; of what stands inside, nothing and empty texts are left out. */
function el(tag, kind, ...inside) {
  const node = document.createElement(tag);
  if (kind) node.className = kind;
  node.append(...inside.filter(part => part != null && part !== ""));
  return node;
}
/** Words that are not of this page, in whatever direction they run. */
function data(tag, kind, words) {
  const node = el(tag, kind ? "data " + kind : "data", words);
  node.dir = "auto";
  return node;
}
function command(words) {
  const node = el("code", "data", words);
  node.dir = "ltr";
  return node;
}
/** Makes the children what is given; those that would not change stay, for whoever is reading them. */
function sync(parent, wanted) {
  wanted.forEach((node, index) => {
    const old = parent.children[index];
    if (!old) parent.append(node); else if (!old.isEqualNode(node)) old.replaceWith(node);
  });
  while (parent.children.length > wanted.length) parent.lastElementChild.remove();
}
function setText(node, words) {
  if (node.textContent !== words) node.textContent = words;
}

// State, in the shape in which events bring it

let gateway = null, totalsBefore = null, openedAt = null, lastID = null;
const pulse = { fromTotals: new Map(), fromEvents: new Map(), replayed: 0, knownFrom: 0 };
const notifications = new Map();
const notes = [];
const changed = new Set();
let drawing = 0;

const isFinal = state => ["accepted_by_platform", "delivered", "opened", "failed", "expired", "cancelled", "unknown"].includes(state);
const secondOf = at => Math.floor(Date.parse(at) / 1000);

function take(type, event) {
  if (type === "gateway.lanes") {
    takeGateway(event);
  } else if (type === "notification.accepted" || texts.en["state." + event.state]) {
    if (type !== "delivery.receipt") takePulse(type, event);
    takeNotification(type, event);
  } else if (texts.en["note." + type]) {
    notes.unshift([type, event]);
    notes.length = Math.min(notes.length, keptNotes);
    changed.add("notes");
    if (Date.parse(event.at) > openedAt) announce(noteText(type, event));
  }
  if (changed.size && !drawing) drawing = requestAnimationFrame(draw);
}
function takeGateway(event) {
  gateway = event;
  const now = secondOf(event.at);
  const ended = Object.entries(event.totals).reduce((sum, [state, n]) => state === "accepted" ? sum : sum + n, 0);
  if (openedAt == null) {
    openedAt = Date.parse(event.at);
    pulse.knownFrom = now - pulseSeconds;
  }
  // After a pause in the stream the difference belongs to no second: its events say more.
  if (totalsBefore && now - totalsBefore.second <= 2) {
    const counts = [Math.max(0, event.totals.accepted - totalsBefore.accepted), Math.max(0, ended - totalsBefore.ended)];
    pulse.fromTotals.set(now, counts);
  }
  totalsBefore = { second: now, accepted: event.totals.accepted, ended };
  for (const seconds of [pulse.fromTotals, pulse.fromEvents]) {
    for (const second of seconds.keys()) if (second < now - pulseSeconds) seconds.delete(second);
  }
  changed.add("gateway");
}
/** Counts events into their seconds: those before the page was opened, and while it had no connection. */
function takePulse(type, event) {
  const second = secondOf(event.at);
  if (Date.parse(event.at) <= openedAt) {
    if (++pulse.replayed === 1) pulse.firstReplayed = second;
    changed.add("gateway");
  }
  // All that were asked for came: there are more before them.
  if (pulse.replayed >= replayed) pulse.knownFrom = Math.max(pulse.knownFrom, pulse.firstReplayed + 1);
  const counts = pulse.fromEvents.get(second) ?? [0, 0];
  if (type === "notification.accepted") counts[0] += event.recipients;
  // A receipt follows an end that was counted.
  else if (isFinal(event.state) && event.state !== "delivered" && event.state !== "opened") counts[1] += 1;
  pulse.fromEvents.set(second, counts);
}
function takeNotification(type, event) {
  let one = notifications.get(event.notification);
  if (!one) {
    one = { id: event.notification, title: "", at: event.at, recipients: 0, states: new Map(), lines: [], node: null };
    notifications.set(one.id, one);
    while (notifications.size > keptNotifications) {
      const [oldest] = notifications.keys();
      notifications.get(oldest).node?.remove();
      notifications.delete(oldest);
    }
  }
  if (type === "notification.accepted") {
    Object.assign(one, { title: event.title || "", at: event.at, recipients: event.recipients });
  } else {
    if (one.states.size < 20000 || one.states.has(event.delivery)) one.states.set(event.delivery, event.state);
    one.lines.push(event);
    one.lines = one.lines.slice(-keptLines);
  }
  changed.add(one.id);
}

// Drawing

function draw() {
  const parts = [...changed];
  changed.clear();
  drawing = 0;
  for (const part of parts) {
    if (part === "gateway") drawGateway();
    else if (part === "notes") drawNotes();
    else if (notifications.has(part)) drawNotification(notifications.get(part));
  }
}
function drawEverything() {
  if (gateway) changed.add("gateway");
  if (notes.length) changed.add("notes");
  for (const id of notifications.keys()) changed.add(id);
  draw();
}
const stateText = state => texts[language]["state." + state] ?? String(state).replaceAll("_", " ");
const tone = state => ["accepted_by_platform", "delivered", "opened"].includes(state) ? "good"
  : ["failed", "expired", "unknown"].includes(state) ? "bad" : state === "cancelled" ? "soft" : "wait";

function drawGateway() {
  setText($("version"), text("version", { version: gateway.version, time: formats.moment.format(new Date(gateway.started_at)) }));
  drawSteps();
  drawTotals();
  drawPulse();
  sync($("backends"), gateway.backends.map(backendRow));
  const nodes = (gateway.nodes || []).map((one) => one.lease_seconds < 0 ? text("backends.lost_node", { name: one.name }) : one.name);
  $("nodes").hidden = nodes.length < 2;
  setText($("nodes"), text("backends.nodes", { count: number(nodes.length), names: nodes.join(text("backends.comma")) }));
}
function drawTotals() {
  const waiting = gateway.backends.reduce((sum, one) => sum + one.lane.waiting + one.lane.claimed, 0);
  const totals = [[text("totals.accepted"), gateway.totals.accepted, ""], [text("totals.waiting"), waiting, waiting ? "wait" : ""]];
  for (const [state, n] of Object.entries(gateway.totals)) {
    const isAlwaysShown = ["accepted_by_platform", "failed"].includes(state);
    if (state !== "accepted" && (n || isAlwaysShown)) totals.push([stateText(state), n, n ? tone(state) : ""]);
  }
  sync($("totals"), totals.map(([name, n, kind]) => el("div", "card", el("dt", "", name), el("dd", kind, number(n)))));
}
function drawPulse() {
  const now = secondOf(gateway.at);
  const points = [];
  for (let second = Math.max(now - pulseSeconds, pulse.knownFrom); second <= now; second++) {
    points.push([second, pulse.fromTotals.get(second) ?? pulse.fromEvents.get(second) ?? [0, 0]]);
  }
  const peak = Math.max(0, ...points.flatMap(([, counts]) => counts));
  ["pulse-accepted", "pulse-ended"].forEach((id, which) => {
    // Beside a high peak a single delivery is still to be seen.
    const height = n => n ? Math.max(2, 36 * n / peak) : 0;
    const path = points.map(([second, counts]) => `${pulseSeconds - now + second} ${38 - height(counts[which])}`);
    $(id).setAttribute("d", "M" + path.join("L"));
  });
  const [accepted, ended] = points.at(-1)[1];
  setText($("pulse-top"), number(Math.max(1, peak)));
  setText($("pulse-zero"), number(0));
  setText($("pulse-caption"), text("pulse.caption", { accepted: number(accepted), ended: number(ended), peak: number(peak) }));
}

/** What an operator is to do next: only what this page can see. */
function drawSteps() {
  const steps = [];
  const isNew = !gateway.totals.accepted && !notifications.size;
  const keyFile = key && !key.startsWith("cht_") ? " --key-file key" : "";
  if (!gateway.backends.length) steps.push([text("steps.backend"), "chapar init"]);
  if (gateway.backends.length && isNew) {
    steps.push([text("steps.notification"), `chapar send --url ${location.origin}${keyFile} ${sampleRecipient()} --title "Order 42" "is on its way"`]);
  }
  for (const [owner, name, end] of expiries()) {
    if (expiryKind(end) === "later") continue;
    const values = { owner, credential: credentialText(name), when: fromNow(end), date: date(end) };
    const sentence = text(expiryKind(end) === "past" ? "steps.credential_ended" : "steps.credential", values);
    steps.push([sentence, "chapar check --config chapar.yaml && pkill -HUP -x chapar"]);
  }
  if (!key && isNew) steps.push([text("steps.key"), "chapar keys create --name shop --scope send --scope read"]);
  $("steps").hidden = !steps.length;
  sync($("steps-list"), steps.map(([sentence, words]) => el("li", "", el("p", "", sentence), command(words))));
}
function sampleRecipient() {
  const service = gateway.backends.flatMap(one => one.audience.services)[0];
  return service ? `--to ${service}:TOKEN` : `--backend ${gateway.backends[0].name} --user USER`;
}

// Credentials

/** Everything that ends: whose it is, its name, when. */
function expiries() {
  const own = Object.entries(gateway.credential_expiries).map(([name, end]) => [text("gateway"), name, end]);
  return own.concat(gateway.backends.flatMap(one =>
    Object.entries(one.health.credential_expiries).map(([name, end]) => [one.name, name, end])));
}
function expiryKind(end) {
  const days = (Date.parse(end) - Date.parse(gateway.at)) / 86400000;
  return days <= 0 ? "past" : days < gateway.credential_warning_days ? "soon" : "later";
}
function credentialText(name) {
  const [kind, ...rest] = name.split(".");
  return texts[language]["credential." + kind] ? text("credential." + kind, { name: rest.join(".") }) : name.replaceAll("_", " ");
}
function expiryLine([name, end]) {
  const kind = expiryKind(end);
  const words = text("expiry." + kind, { credential: credentialText(name), when: fromNow(end), date: date(end) });
  return el("div", "expiry " + { later: "soft", soon: "wait", past: "bad" }[kind], words);
}

// Backends

/** How a backend is, its colour, and why: the gravest that is known. */
function backendState({ gone, lane, health }) {
  const why = lane.pause_reason || health.detail;
  if (gone) return [text("backend.gone"), "bad", why];
  if (lane.invalidations_held) return [text("backend.quarantined"), "bad", null, text("backend.quarantined_fix")];
  if (lane.parked) return [text("backend.parked"), "bad", why];
  if (lane.breaker === "open") {
    const key = lane.breaker_until ? "backend.breaker_open_until" : "backend.breaker_open";
    return [text(key, { time: time(lane.breaker_until) }), "bad", lane.breaker_reason || why];
  }
  if (lane.breaker !== "closed") return [text("backend.breaker_half_open"), "wait", lane.breaker_reason || why];
  if (lane.paused_until && Date.parse(lane.paused_until) > Date.parse(gateway.at)) {
    return [text("backend.paused", { time: time(lane.paused_until) }), "wait", why];
  }
  if (health.status === "down") return [text("backend.down"), "bad", why];
  if (health.status === "degraded") return [text("backend.degraded"), "wait", why];
  return [text("backend.flowing"), "good", why];
}
function backendRow(one) {
  const { lane } = one;
  const [state, kind, why, fix] = backendState(one);
  const name = el("th", "", data("span", "", one.name), " ", data("span", "soft", one.kind));
  name.scope = "row";
  const meter = el("meter");
  for (const [key, value] of [["min", 0], ["max", Math.max(1, lane.window)], ["value", lane.in_flight]]) meter.setAttribute(key, value);
  meter.setAttribute("aria-label", text("backends.in_flight") + ": " + one.name);
  const reason = why ? data("div", "soft", why) : fix ? el("div", "soft", fix) : null;
  const takes = [...one.audience.services, ...one.audience.forms].join(", ");
  return el("tr", "", name,
    el("td", "", el("span", kind, state), reason, ...Object.entries(one.health.credential_expiries).map(expiryLine)),
    el("td", "load", meter, " ", text("backend.in_flight", { count: number(lane.in_flight), window: number(lane.window) })),
    el("td", "number", number(lane.waiting)),
    el("td", "number", lane.oldest_age == null ? text("backend.nothing_waits") : duration(lane.oldest_age)),
    el("td", "", data("span", "soft", takes)));
}

// Notifications

function drawNotification(one) {
  $("no-notification").hidden = true;
  $("notifications").hidden = false;
  if (!one.node) {
    const details = el("details", "", el("summary", "", el("span")), el("ol"));
    details.addEventListener("toggle", () => drawNotification(one));
    one.node = el("li", "", details);
    $("notifications").prepend(one.node);
  }
  const [summary, lines] = one.node.firstChild.children;
  const title = one.title ? data("b", "", one.title) : el("b", "", text("notification.untitled"));
  sync(summary.firstChild, [el("span", "soft", time(one.at)), title, data("code", "soft", one.id), ...stateCounts(one)]);
  if (one.node.firstChild.open) sync(lines, one.lines.map(attemptLine));
}
function stateCounts(one) {
  const counts = new Map();
  for (const state of one.states.values()) counts.set(state, (counts.get(state) || 0) + 1);
  const silent = one.recipients - one.states.size;
  if (silent > 0) counts.set("queued", (counts.get("queued") || 0) + silent);
  return [...counts].map(([state, n]) => el("span", tone(state),
    one.recipients > 1 ? text("notification.count", { count: number(n), state: stateText(state) }) : stateText(state)));
}
/** A change of a delivery's state: when, whose, what became of it, and the platform's words. */
function attemptLine(event) {
  const attempt = event.attempt || {};
  const parts = [data("code", "", shortened(String(event.recipient || ""))), el("span", tone(event.state), stateText(event.state)),
    data("span", "", event.backend)];
  for (const words of [attempt.status, attempt.reason || event.reason, attempt.detail]) if (words) parts.push(data("span", "soft", words));
  if (attempt.platform_id) parts.push(el("span", "soft", text("attempt.id", { id: attempt.platform_id })));
  if (attempt.retry_after != null) parts.push(el("span", "soft", text("attempt.again", { wait: duration(attempt.retry_after) })));
  return el("li", "", el("span", "soft", time(event.at)), ...parts.flatMap((part, index) => [index ? " · " : " ", part]));
}
const shortened = words => words.length > 40 ? words.slice(0, 28) + "…" + words.slice(-8) : words;

$("notifications").addEventListener("keydown", event => {
  const details = event.target.closest("details[open]");
  if (event.key !== "Escape" || !details) return;
  details.open = false;
  details.firstChild.focus();
});

// Notes

const noteText = (type, event) => text("note." + type, { backend: event.backend });
function drawNotes() {
  $("no-note").hidden = true;
  $("notes").hidden = false;
  sync($("notes"), notes.map(([type, event]) => {
    const isBad = ["backend.parked", "backend.breaker_opened", "backend.invalidations_held"].includes(type);
    const parts = [el("span", isBad ? "bad" : "", noteText(type, event))];
    if (event.tokens != null) parts.push(el("span", "", text("note.tokens", { count: number(event.tokens) })));
    if (event.until) parts.push(el("span", "", text("note.until", { time: time(event.until) })));
    if (event.recipient) parts.push(data("code", "", shortened(String(event.recipient))));
    if (event.reason) parts.push(data("span", "soft", event.reason));
    return el("li", "", el("span", "soft", event.at ? time(event.at) : ""), ...parts.flatMap((part, index) => [index ? " · " : " ", part]));
  }));
}
let announcements = [], announcing = 0;
/** Tells a screen reader, at most the newest three sentences every five seconds. */
function announce(sentence) {
  announcements = [...announcements, sentence].slice(-3);
  announcing ||= setTimeout(() => {
    setText($("announcement"), announcements.join(". "));
    announcements = [];
    announcing = 0;
  }, announcementMilliseconds);
}

// Connection

let key = stored("sessionStorage", "chapar-key"), stream = null;
let connection = "connecting", trouble = null, keyReason = null, linkReason = null;

function drawConnection() {
  setText($("connection"), text("connection." + connection));
  $("connection").className = { live: "good", lost: "bad", key: "wait" }[connection] ?? "";
  $("other-key").hidden = !key || connection === "key";
  $("trouble").hidden = connection !== "lost";
  if (connection !== "lost") return;
  const values = { wait: duration(retryMilliseconds / 1000), address: location.origin,
    time: gateway ? formats.time.format(new Date(gateway.at)) : "–", ...trouble };
  setText($("h-trouble"), text(trouble ? "trouble.refused_heading" : "trouble.heading"));
  setText($("trouble-text"), text(trouble ? "trouble.refused" : "trouble.lost", values));
  $("trouble-command").hidden = Boolean(trouble);
}
function setConnection(state, problem = null) {
  [connection, trouble] = [state, problem];
  $("key-form").hidden = state !== "key";
  if (state === "live" || state === "key") $("watching").hidden = state === "key";
  drawConnection();
}
function askForKey(reason) {
  keyReason = reason;
  key = null;
  store("sessionStorage", "chapar-key", null);
  setConnection("key");
  drawKeyReason();
  $("key").focus();
}
function drawKeyReason() { setText($("key-reason"), keyReason ? text(keyReason) : ""); }

/** Follows the stream until a key is asked for, and opens it anew whenever it ends. */
async function watch() {
  stream?.abort();
  const own = stream = new AbortController();
  while (stream === own) {
    let problem = null;
    try {
      const from = lastID == null ? "last=" + replayed : "after=" + lastID;
      const headers = key ? { Authorization: "Bearer " + key } : {};
      const answer = await fetch("/v1/events?workers=1&" + from, { headers, signal: own.signal });
      if (answer.status === 401 || answer.status === 403) {
        return askForKey(answer.status === 403 ? "key.scope" : key ? "key.unknown" : linkReason);
      }
      if (answer.ok) {
        setConnection("live");
        await readFrames(answer.body.pipeThrough(new TextDecoderStream()).getReader());
      } else {
        const told = await answer.json().catch(() => ({}));
        problem = { status: number(answer.status), detail: told.detail ?? told.title ?? "" };
      }
    } catch { /* The gateway is away, or another key was chosen. */ }
    if (stream !== own) return;
    setConnection("lost", problem);
    await new Promise(done => setTimeout(done, retryMilliseconds));
  }
}
async function readFrames(reader) {
  let rest = "";
  for (;;) {
    const silence = setTimeout(() => reader.cancel(), silenceMilliseconds);
    const { value, done } = await reader.read().finally(() => clearTimeout(silence));
    if (done) return;
    const frames = (rest + value).split("\n\n");
    rest = frames.pop();
    frames.forEach(readFrame);
  }
}
function readFrame(frame) {
  let type = "message", json = null;
  for (const line of frame.split("\n")) {
    if (line.startsWith("id: ")) lastID = line.slice(4);
    else if (line.startsWith("event: ")) type = line.slice(7);
    else if (line.startsWith("data: ")) json = line.slice(6);
  }
  if (json == null) return;
  try { take(type, JSON.parse(json)); } catch (error) { console.error(type, error); }
}

$("language").addEventListener("click", () => {
  const other = Object.keys(texts).find(tag => tag !== language);
  store("localStorage", "chapar-language", other);
  applyLanguage(other);
});
$("other-key").addEventListener("click", () => {
  stream?.abort();
  stream = null;
  askForKey(null);
});
$("key-form").addEventListener("submit", event => {
  event.preventDefault();
  key = $("key").value.trim();
  store("sessionStorage", "chapar-key", key);
  $("key").value = "";
  keyReason = null;
  setConnection("connecting");
  watch();
  $("main").focus();
});
/** Exchanges the code of the link that `serve` shows, once, for a token, which is kept as a key is. */
async function redeemLink() {
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (!code) return;
  history.replaceState(null, "", location.pathname + location.search);
  try {
    const request = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ code }) };
    const answer = await fetch("/v1/dashboard/session", request);
    if (!answer.ok) return linkReason = "key.link";
    key = (await answer.json()).token;
    store("sessionStorage", "chapar-key", key);
  } catch { /* The gateway is away: the page says so, and asks for a key when it is back. */ }
}
applyLanguage(preferredLanguage());
redeemLink().then(watch);
addEventListener("hashchange", () => redeemLink().then(watch));  // The link, where the page is open already.
