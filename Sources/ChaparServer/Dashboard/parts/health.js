// How a backend is: the gravest that is known, told once; and its credentials, with their ends.

/** The delivery worker of a backend. Events have its old name, `lane`. */
const workerOf = backend => backend.worker ?? backend.lane;
const isQuarantined = worker => Boolean(worker.invalidations_quarantined ?? worker.invalidations_held);

/** The states of a backend, the gravest first: name, tone and shape. */
const backendStates = [
  ["gone", "bad", "cancelled"], ["quarantined", "bad", "pause"], ["parked", "bad", "failed"],
  ["breaker_open", "bad", "failed"], ["down", "bad", "failed"],
  ["breaker_half_open", "wait", "retrying"], ["paused", "wait", "pause"], ["degraded", "wait", "warning"],
  ["flowing", "good", "accepted_by_platform"],
];
function backendStateName(backend) {
  const worker = workerOf(backend), status = backend.health.status;
  if (backend.gone) return "gone";
  if (isQuarantined(worker)) return "quarantined";
  if (worker.parked) return "parked";
  if (worker.breaker === "open") return "breaker_open";
  if (status === "down") return "down";
  if (worker.breaker === "half_open") return "breaker_half_open";
  if (worker.paused_until && Date.parse(worker.paused_until) > now()) return "paused";
  return status === "degraded" ? "degraded" : "flowing";
}
/** The state of a backend: {name, tone, shape, rank, reason, detail, until}; a lower rank is graver. */
function backendState(backend) {
  const worker = workerOf(backend), name = backendStateName(backend),
    rank = backendStates.findIndex(([one]) => one === name);
  const [, tone, shape] = backendStates[rank];
  const isBreaker = name.startsWith("breaker");
  const reason = name === "flowing" ? null : isBreaker ? worker.breaker_reason : worker.pause_reason;
  // What the health says of a credential stands where the credential stands.
  const isOfCredential = name === "degraded" && credentialsOf(backend).some(one => one.kind !== "later");
  const detail = name === "flowing" || isOfCredential ? null : backend.health.detail;
  return { name, tone, shape, rank, reason, detail, until: isBreaker ? worker.breaker_until : worker.paused_until };
}
const backendChip = state => el("span", { class: "chip " + state.tone, "data-state": state.name }, icon(state.shape),
  " ", text("backends.state_" + state.name));

/** Why a backend is as it is: the platform's word, and the sentence; a list shows only the beginning of a long one. */
function backendWhy(state, most = 2000) {
  const whole = state.detail?.replace(/^parked, /, ""),
    detail = whole?.length > most ? whole.slice(0, most) + "…" : whole;
  const hasReason = state.reason && !detail?.startsWith(state.reason);
  return [hasReason && code(state.reason), hasReason && detail && " ", detail && words(detail),
    state.name === "paused" && state.until && [" ", pieces("backends.until", { time: when(state.until) })]];
}

/** Ends of credentials: name, end, and whether that is `past`, `soon` (within the warning days) or `later`. */
function credentialsOf(owner, warningDays = 30) {
  const ends = owner.health?.credential_expiries ?? owner.credential_expiries ?? {};
  return Object.entries(ends).map(([name, end]) => {
    const days = (Date.parse(end) - now()) / 86400000;
    return { name, end, kind: days <= 0 ? "past" : days < warningDays ? "soon" : "later" };
  });
}
function credentialName(name) {
  const [kind, ...rest] = name.split(".");
  return hasText("backends.credential_" + kind) ? pieces("backends.credential_" + kind, { name: code(rest.join(".")) })
    : code(name);
}
/** A credential and its end; what ends soon has a shape beside the colour. */
function credentialLine(one) {
  const tone = { later: "soft", soon: "wait", past: "bad" }[one.kind];
  return el("span", { class: "credential " + tone, key: one.name, "data-credential": one.kind },
    one.kind !== "later" && icon("warning"), " ",
    pieces("backends.credential_" + (one.kind === "past" ? "ended" : "ends"),
      { credential: credentialName(one.name), time: when(one.end) }));
}
/** How a credential is renewed: the sentence, and the commands that check the file and let the gateway read it. */
const renewalSteps = backend => [backend.health?.detail && el("p", null, words(backend.health.detail)),
  el("p", null, text("backends.renew")),
  command("chapar check --config chapar.yaml"), command("sudo systemctl reload chapar")];
const renewal = backend => el("details", { class: "renewal", key: "renewal" },
  el("summary", { "data-action": "how-to-renew" }, text("backends.how_to_renew")), renewalSteps(backend));

/** The backends as an event of the gateway has them, with what only the answer of a GET has. */
function backendsWith(old, lanes) {
  const known = new Map(old.map(one => [one.name, one]));
  return lanes.backends.map(
    one => ({ ...known.get(one.name), ...one,
        worker: { quota: known.get(one.name)?.worker?.quota, ...one.worker ?? one.lane } }));
}
