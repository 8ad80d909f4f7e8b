// Actions that several views offer: each asks the gateway once, and tells what came of it.

/** Whether a view may be read again by itself: it was not for so many seconds, and nothing of it is in use. */
const isReloadDue = seconds => !current.isLoading && !openDialogs.length && !busy.size &&
  Date.now() - current.loadedAt > seconds * 1000;

/** Tells the outcome of an action, and reads the view's data again. */
function told(sentence) {
  toast(sentence);
  return ctx.reload();
}

// Backends

/** Whether trying again at once can change anything. */
const needsRetry = state => ["parked", "breaker_open", "breaker_half_open", "paused", "down"].includes(state.name);
function retryButton(backend, kind = "") {
  return actionButton({ name: "retry", id: backend.name, kind, label: text("backends.retry"),
      run: () => retryBackend(backend.name) });
}
async function retryBackend(name) {
  const answer = await api.post(`/v1/backends/${part(name)}/retry`, {}, { idempotency: actionKey() });
  const kept = answer.kept?.length ? " " +
    text("backends.retry_kept", { reasons: listOf(answer.kept.map(one => one.reason ?? one.pause)) }) : "";
  await told(text("backends.retried", { count: answer.deliveries, name }) + kept);
}

// Dead letters

const mostPages = 1000;
/** Sends a request that works page by page until there is no next page; gives the sum of the numbers of its answers. */
async function byPages(path, body, { signal, key, change }) {
  const sum = { matched: 0, resent: 0, acknowledged: 0, brought_back: 0, possible_second_copies: 0, missing: 0,
    left_out: {}, notifications: [] };
  let cursor;
  for (let page = 0; page < mostPages; page++) {
    const answer = await api.post(path, cursor ? { ...body, cursor } : body,
      { signal, idempotency: key && `${key}-${page}` });
    for (const name of ["matched", "resent", "acknowledged", "brought_back", "possible_second_copies", "missing"])
      sum[name] += answer[name] ?? 0;
    for (const [cause, count] of Object.entries(answer.left_out ?? {}))
      sum.left_out[cause] = (sum.left_out[cause] ?? 0) + count;
    if (sum.notifications.length < 20) sum.notifications.push(...answer.notifications ?? []);
    change?.(sum);
    if (!answer.next) return sum;
    cursor = answer.next;
  }
  return sum;
}

/** What is left out of a resend, a sentence a cause. */
const leftOutLines = causes => Object.entries(causes).map(([cause, count]) =>
  hasText("dead.left_out_" + cause) ? text("dead.left_out_" + cause, { count })
    : text("dead.left_out_other", { count, cause }));

/**
 * Asks how deliveries are to be sent again, and sends them. `what` has a `filter` or `deliveries`; the filter is
 * frozen, so
 * that what fails meanwhile is not sent with it. Gives the sum of the answers.
 */
function resendDialog(what) {
  const frozen = what.filter ? { filter: { ...what.filter, until: what.filter.until ?? new Date(now()).toISOString() } }
    : what;
  const body = (values, isDry) =>
    ({ ...frozen, options: { ttl: values.minutes * 60 }, ...(values.pace > 0 && { per_minute: values.pace }),
      dry_run: isDry });
  return confirmAction({
    name: "resend", title: text("dead.resend"), values: { minutes: 10, pace: 0 },
    fields: (values, change) => el("div", { class: "fields", key: "fields" },
      field({ name: "minutes", label: text("dead.ttl"), inputmode: "numeric", value: String(values.minutes),
          onchange: event => change({ minutes: wholeNumber(event.target.value, 10, 40320) }) }),
      field({ name: "pace", label: text("dead.pace"), help: text("dead.pace_help"), inputmode: "numeric",
          value: values.pace ? String(values.pace) : "",
        onchange: event => change({ pace: wholeNumber(event.target.value, 0, 1000000) }) })),
    async preview(values, signal) {
      const answer = await byPages("/v1/deliveries/resend", body(values, true), { signal });
      return {
        count: answer.resent, title: text("dead.resend_title", { count: answer.resent, matched: answer.matched }),
        verb: text("dead.resend_verb", { count: answer.resent }),
        lines: [...leftOutLines(answer.left_out),
          answer.possible_second_copies > 0 && text("dead.second_copies", { count: answer.possible_second_copies }),
          values.pace > 0 && answer.resent > 0 &&
            text("dead.takes", { time: duration(answer.resent / values.pace * 60) }),
          answer.resent === 0 && text("dead.nothing_to_resend")].filter(Boolean),
      };
    },
    run: (values, key) => byPages("/v1/deliveries/resend", body(values, false), { key }),
  }).then(answer => {
    if (!answer) return answer;
    const [first] = answer.notifications;
    const isOne = answer.resent === 1 && first;
    told(isOne ? pieces("dead.resent_one", { id: el("a", { href: href("/messages/" + part(first)) }, code(first)) })
      : text("dead.resent", { count: answer.resent }));
    return answer;
  });
}
/** A whole number that was typed, within bounds; the usual one where it is none. */
function wholeNumber(typed, usual, most) {
  const value = Number.parseInt(latinDigits(typed).replace(/[^\d]/g, ""), 10);
  return Number.isNaN(value) ? usual : Math.min(Math.max(value, usual === 0 ? 0 : 1), most);
}

/** At most so many deliveries can be brought back by one Undo: they are named one by one. */
const mostBroughtBack = 1000;
/** The places of the deliveries that a filter finds, or null where there are more than can be brought back. */
async function placesOf(filter, signal) {
  const params = Object.fromEntries(
    Object.entries(filter).map(([name, value]) => [name, Array.isArray(value) ? value.join(",") : String(value)]));
  const places = [];
  for (let cursor; ;) {
    const page = await api.get("/v1/deliveries", { ...params, limit: 200, cursor }, signal);
    places.push(...page.items.map(one => ({ notification: one.notification, delivery: one.delivery })));
    if (places.length > mostBroughtBack) return null;
    if (!page.next) return places;
    cursor = page.next;
  }
}

/** Asks whether failed deliveries are to leave the view of dead letters. What was named one by one can be undone. */
function acknowledgeDialog(filter) {
  const frozen = { ...filter, until: filter.until ?? new Date(now()).toISOString() };
  let what = { filter: frozen };
  return confirmAction({
    name: "acknowledge", title: text("dead.acknowledge"),
    async preview(values, signal) {
      const places = await placesOf(frozen, signal);
      what = places?.length ? { deliveries: places } : { filter: frozen };
      const answer = await byPages("/v1/deliveries/acknowledge", { ...what, dry_run: true }, { signal });
      const count = answer.acknowledged || answer.matched;
      return { count, title: text("dead.acknowledge_title", { count }), verb: text("dead.acknowledge_verb", { count }),
        lines: [text("dead.acknowledge_note")] };
    },
    run: (values, key) => byPages("/v1/deliveries/acknowledge", what, { key }),
  }).then(answer => {
    if (!answer) return answer;
    const undo = what.deliveries && (async () => {
      await byPages("/v1/deliveries/acknowledge", { ...what, undo: true }, {});
      await ctx.reload();
    });
    toast(text("dead.acknowledged", { count: answer.acknowledged }), { undo });
    ctx.reload();
    return answer;
  });
}

// Campaigns

/** Pauses a campaign, or lets it go on; at once, since it can be undone. */
async function pauseCampaign(id, name, isPaused) {
  const turn = verb => api.post(`/v1/notifications/${part(id)}/${verb}`, {});
  await turn(isPaused ? "pause" : "resume");
  toast(text(isPaused ? "audiences.paused" : "audiences.resumed", { name }),
    { undo: async () => { await turn(isPaused ? "resume" : "pause"); await ctx.reload(); } });
  await ctx.reload();
}
/** Asks for the pace of a campaign; empty is as fast as the platforms take it. */
function paceDialog(id, name, pace) {
  const set = value => api.patch("/v1/notifications/" + part(id), { pace: value ? { per_minute: value } : {} });
  let typed = pace?.per_minute ? String(pace.per_minute) : "";
  let error = null;
  const submit = async dialog => {
    const wanted = wholeNumber(typed, 0, 1000000000);
    try { await set(wanted); } catch (refusal) {
      error = refusal;
      return dialog.redraw();
    }
    dialog.close();
    toast(wanted ? text("audiences.pace_set", { count: wanted, name }) : text("audiences.pace_free", { name }),
      { undo: async () => { await set(pace?.per_minute); await ctx.reload(); } });
    return ctx.reload();
  };
  return openDialog(dialog => el("form",
      { method: "dialog", "aria-labelledby": "dialog-title",
        onsubmit: event => { event.preventDefault(); return submit(dialog); } },
    dialogHead(text("audiences.pace_title", { name })),
    field({ name: "pace", label: text("audiences.per_minute"), help: text("audiences.per_minute_help"),
        inputmode: "numeric", value: typed, autofocus: true,
      oninput: event => { typed = event.target.value; } }),
    error && el("p", { class: "bad", role: "alert" }, refusalWords(error)),
    el("p", "buttons", el("button", { type: "button", key: "cancel", onclick: () => dialog.close() },
        text("base.leave_it")),
      el("button", { type: "submit", class: "main", key: "do", "data-action": "confirm" },
        text("audiences.pace_verb")))), { name: "pace" });
}
/** Asks before what waits of a message or campaign is cancelled. */
function cancelDialog(id, name, more = {}) {
  const path = "/v1/notifications/" + part(id);
  return confirmAction({
    name: "cancel", title: text("audiences.cancel"),
    async preview(values, signal) {
      const answer = await api.delete(path, { dry_run: true }, { signal });
      return { count: answer.cancelled, isReady: more.isCampaign || answer.cancelled > 0,
        title: more.isCampaign ? text("audiences.cancel_title", { name })
          : text("audiences.cancel_message_title", { name }),
        lines: [text("audiences.cancel_waiting", { count: answer.cancelled }),
          answer.too_late > 0 && text("audiences.cancel_late", { count: answer.too_late }),
          answer.in_flight > 0 && text("audiences.cancel_in_flight", { count: answer.in_flight }),
          more.isCampaign && text("audiences.cancel_rest")].filter(Boolean),
        verb: text("audiences.cancel_verb", { count: answer.cancelled }) };
    },
    run: () => api.delete(path),
  }).then(answer => {
    if (answer) told(text("audiences.cancelled", { count: answer.cancelled, name }));
    return answer;
  });
}
