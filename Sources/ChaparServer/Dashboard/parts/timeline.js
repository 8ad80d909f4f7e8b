// The way of one delivery: an item for each attempt, with the platform's own words and the gateway's sentence.

/** Attempts shown at the beginning and the end, where there are more than twenty. */
const manyAttempts = 20, shownAtEnds = 3;

function timeline(delivery, createdAt) {
  const attempts = delivery.attempts ?? [];
  const items = [timelineItem(createdAt, text("timeline.accepted"), mark("soft", "dot", text("timeline.accepted")))];
  const isLong = attempts.length > manyAttempts;
  attempts.forEach((attempt, index) => {
    const isHidden = isLong && index >= shownAtEnds && index < attempts.length - shownAtEnds;
    if (!isHidden) items.push(attemptItem(attempt));
    else if (index === shownAtEnds)
      items.push(el("li", { key: "more", class: "soft" },
        text("timeline.more", { count: attempts.length - 2 * shownAtEnds })));
  });
  if (delivery.next_attempt_at)
    items.push(el("li", { key: "next" }, text("timeline.next"), " ", when(delivery.next_attempt_at)));
  const last = attempts.at(-1);
  const isTold = last && stateOfAttempt(last) === delivery.state;
  if (delivery.state_at && !isTold && !onItsWay.includes(delivery.state)) {
    items.push(timelineItem(delivery.state_at, "end", chip(delivery.state)));
  }
  return el("ol", "timeline", items);
}
function timelineItem(at, key, ...inside) {
  return el("li", { key },
    el("time", { datetime: at, title: exact(at), class: "fine" }, formats.fine.format(new Date(at))), " ", ...inside);
}
const stateOfAttempt = attempt => attempt.state ??
  ({ accepted: "accepted_by_platform", refused: "failed", unknown: "unknown" })[attempt.outcome];

function attemptItem(attempt, index) {
  const state = stateOfAttempt(attempt);
  const outcome = hasText("timeline." + attempt.outcome) ? text("timeline." + attempt.outcome) : attempt.outcome;
  const shown = attempt.outcome === "refused" && attempt.retry_after != null ? mark("wait", "retrying", outcome)
    : mark(tones[state] ?? "soft", state ?? "dot", outcome);
  const parts = [attempt.backend && code(attempt.backend), shown, attempt.status && code(attempt.status),
    attempt.reason && el("b", null, code(attempt.reason)),
    attempt.detail && el("span", "soft", words(visible(attempt.detail))),
    attempt.platform_id && el("span", "soft", pieces("timeline.platform_id", { id: short(attempt.platform_id) })),
    attempt.retry_after != null && el("span", "soft", text("timeline.wait", { wait: duration(attempt.retry_after) }))];
  return timelineItem(attempt.at, attempt.at + index,
    flattened(parts).flatMap((one, place) => place ? [" ", one] : [one]));
}

/** What the reason of the last attempt means, where that was not `told` before, and what to do. */
function explanation(found, told) {
  if (!found) return null;
  return el("div", "advice", found.meaning !== told && el("p", null, words(found.meaning)),
    found.action && el("p", null, el("b", null, text("timeline.what_to_do")), " ", words(found.action)),
    found.gateway && el("details", null, el("summary", null, text("timeline.what_the_gateway_does")),
      el("p", "soft", words(found.gateway))));
}
