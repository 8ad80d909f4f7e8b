// The state of the page beside its views: the key and what it may do, the person's choices, and the state of the
// gateway.

/** Reads what the browser keeps; null where it keeps nothing. */
function kept(storage, name) {
  try { return window[storage].getItem(name); } catch { return null; }
}
/** Keeps a value, or forgets it; where the browser keeps nothing it is known until the page is left. */
function keep(storage, name, value) {
  try {
    if (value == null) window[storage].removeItem(name); else window[storage].setItem(name, value);
  } catch { /* Known until the page is left. */ }
}

/** Choices of the person; no data. */
const choices = {
  language: kept("localStorage", "chapar-language"),
  theme: kept("localStorage", "chapar-theme") ?? "system",
  digits: kept("localStorage", "chapar-digits") ?? "own",
  zone: kept("localStorage", "chapar-zone") ?? "",
  letters: kept("localStorage", "chapar-letters") ?? "on",
  times: kept("localStorage", "chapar-times") ?? "relative",
};
function choose(name, value) {
  choices[name] = value;
  keep("localStorage", "chapar-" + name, value);
}

/** The key: in memory, and in session storage where the person wants that. `own` is the answer of `GET /v1/key`. */
const session = { key: kept("sessionStorage", "chapar-key"), own: null, reason: null, reasonValues: {} };

/** What the stream and the answers tell of the gateway. */
const live = {
  connection: "connecting", // connecting, live, lost, refused (the stream only), none (the key may not have it), key
  lanes: null, lanesAt: 0, lostSince: null, nextTry: null, refusal: null,
  skew: 0, // The gateway's clock minus this one, in milliseconds.
  notes: [], dropped: 0,
};
const keptNotes = 100;

// Roles. One table says which scope an action needs; any of the named ones will do, and `admin` does everything. The
// gateway decides what happens: the table only says what is drawn.

const actionScopes = {
  send: ["send"], resend: ["send"], acknowledge: ["send"], cancel: ["send"], pace: ["send"], pause_campaign: ["send"],
  broadcast: ["broadcast"],
  edit_device: ["devices"], edit_tags: ["devices"], edit_lists: ["devices"], edit_segment: ["devices"],
  send_test: ["send"],
  erase: ["admin"],
  retry: ["admin"], diagnose: ["admin"], drain: ["admin"], move: ["admin"], quarantine: ["admin"],
  webhooks: ["webhooks"],
};

/** Whether the key has one of the scopes. Without an answer of `GET /v1/key` everything is offered. */
function hasScope(scopes) {
  const own = session.own?.scopes;
  return !own || !scopes?.length || own.includes("admin") || scopes.some(scope => own.includes(scope));
}
/** Whether the gateway is away, so that nothing can be asked of it. */
const isLost = () => live.connection === "lost";
/** Whether the key reads the messages that it sent, and no others. */
const readsOwnOnly = () => !hasScope(["read_all"]);
const can = action => hasScope(actionScopes[action] ?? ["admin"]);
