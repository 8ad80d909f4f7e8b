// The webhooks: which of them fail, what their receivers answer, and what can be sent again.

addView({
  path: "/webhooks",
  title: "webhooks.title",
  needs: ["webhooks"],
  async load(params, signal) {
    const answer = await api.get("/v1/webhooks", {}, signal);
    setBadge("/webhooks", answer.webhooks.filter(one => one.status !== "active").length);
    return answer;
  },
  live(news, ctx) {
    if (news.note?.type.startsWith("webhook.") && isReloadDue(1)) ctx.reload();
  },
  draw(data) {
    const columns = [{ name: "name", label: text("webhooks.name"), kind: "main" },
      { name: "state", label: text("backends.state"), kind: "wide" },
      { name: "waiting", label: text("backends.waiting"), kind: "number" },
      { name: "failed", label: text("webhooks.given_up"), kind: "number" },
      { name: "success", label: text("webhooks.success"), kind: "end" }];
    const rows = [...data.webhooks].sort((a, b) => (a.status === "active") - (b.status === "active")).map(one => ({
      key: one.name, name: one.name, state: one.status,
      cells: [[rowLink(href("/webhooks/" + part(one.name)), el("b", null, code(one.name))),
          el("p", "note", code(one.url))], [webhookChip(one), el("p", "note", webhookWhy(one))],
        number(one.open), number(one.failed), one.succeeded_at ? when(one.succeeded_at) : text("webhooks.never")] }));
    return [
      heading(text("webhooks.title")),
      rows.length === 0 ? emptyState(text("webhooks.none"),
        command("chapar webhooks add shop https://shop.example/hooks --secret-file shop.key"))
        : table({ name: "webhooks", label: text("webhooks.title"), columns, rows }),
    ];
  },
});

addView({
  path: "/webhooks/:name",
  title: data => data.webhook.name,
  needs: ["webhooks"],
  async load(params, signal) {
    const path = "/v1/webhooks/" + part(params.name);
    const [webhook, tried] = await Promise.all([api.get(path, {}, signal), api.get(path + "/attempts", {}, signal)]);
    return { webhook, attempts: tried.attempts };
  },
  draw({ webhook, attempts }, ctx) {
    const [last] = attempts;
    return [
      backLink("/webhooks", text("webhooks.title")),
      heading(code(webhook.name), webhookButtons(webhook, ctx)),
      el("div", { class: "card", key: "state", "data-state": webhook.status },
        el("p", null, webhookChip(webhook), " ", webhookWhy(webhook)),
        last && el("p", { "data-last": last.outcome }, text("webhooks.last"), " ", attemptOutcome(last), " ",
          when(last.at))),
      ctx.state.test && testSection(ctx.state.test),
      facts([
        [text("webhooks.url"), code(webhook.url)],
        [text("webhooks.types"), webhook.types.flatMap((one, index) => [index > 0 && " ", code(one)])],
        [text("webhooks.app"), webhook.app && code(webhook.app)], [text("backends.waiting"), number(webhook.open)],
        [text("webhooks.lag"), text("webhooks.lag_events", { count: webhook.lag })],
        [text("webhooks.given_up"), number(webhook.failed)],
        [text("webhooks.form"),
          listOf([text(webhook.ordered ? "webhooks.ordered" : "webhooks.unordered"),
              text(webhook.batch ? "webhooks.batch" : "webhooks.single")])],
        [text("webhooks.rate"), webhook.rate > 0 && text("webhooks.per_second", { count: webhook.rate })],
        [text("webhooks.old_secrets"), webhook.old_secrets_until && when(webhook.old_secrets_until)]]),
      attemptsSection(webhook, attempts, ctx),
      section(text("webhooks.verify"), { key: "verify" }, el("p", null, text("webhooks.verify_text")),
        command(`chapar webhooks listen --secret-file ${webhook.name}.key`)),
    ];
  },
});

function webhookChip(webhook) {
  const shapes = { active: ["good", "accepted_by_platform"], failing: ["bad", "failed"],
    disabled: ["soft", "cancelled"] };
  return mark(...shapes[webhook.status] ?? ["soft", "dot"], text("webhooks.status_" + webhook.status));
}
function webhookWhy(webhook) {
  return [
    webhook.status !== "active" && webhook.reason && [text("webhooks.reason_" + webhook.reason), " "],
    webhook.failing_since && [pieces("webhooks.failing_since", { time: when(webhook.failing_since) }), " "],
    webhook.will_be_disabled_at &&
      [pieces("webhooks.will_be_disabled", { time: when(webhook.will_be_disabled_at) }), " "],
    webhook.disabled_at && [pieces("webhooks.disabled_at", { time: when(webhook.disabled_at) }), " "],
    webhook.paused_until && pieces("backends.until", { time: when(webhook.paused_until) })];
}
function webhookButtons(webhook, ctx) {
  const path = "/v1/webhooks/" + part(webhook.name), isOn = webhook.status !== "disabled";
  const act = (name, label, run, kind = "") =>
    actionButton({ name, id: webhook.name, action: "webhooks", kind, label, run });
  const turn = wanted => api.patch(path, { enabled: wanted });
  return el("div", "buttons",
    act("test", text("webhooks.test"),
      async () => { ctx.state.test = { ...await api.post(path + "/test", {}), at: new Date(now()).toISOString() }; },
      "main"),
    act("recover", text("webhooks.recover"), () => recoverDialog(webhook)),
    act("rotate", text("webhooks.rotate"), () => rotateDialog(webhook)),
    act(isOn ? "disable" : "enable", text(isOn ? "webhooks.disable" : "webhooks.enable"), async () => {
      await turn(!isOn);
      toast(text(isOn ? "webhooks.is_off" : "webhooks.is_on", { name: webhook.name }),
        { undo: async () => { await turn(isOn); await ctx.reload(); } });
      await ctx.reload();
    }));
}
/** What a receiver answered: the status, or why there was no answer. */
function attemptOutcome(one) {
  const shape = one.outcome === "delivered" ? ["good", "accepted_by_platform"] : ["bad", "failed"];
  return [mark(...shape,
      hasText("webhooks.outcome_" + one.outcome) ? text("webhooks.outcome_" + one.outcome) : one.outcome),
    one.status && [" ", code(one.status)],
    one.redirect_host && [" → ", code(one.redirect_host)], one.detail && [" ", el("span", "soft", words(one.detail))]];
}
function testSection(test) {
  return section([text("webhooks.test_result"), " ", el("span", "soft", when(test.at))],
    { key: "test", "data-test": test.outcome },
    el("p", null, attemptOutcome(test), " ",
      el("span", "soft", text("webhooks.milliseconds", { count: test.duration_ms }))),
    test.body && el("pre", { dir: "ltr", tabindex: "0", "aria-label": text("webhooks.body") },
      visible(test.body.slice(0, 1024))));
}

function attemptsSection(webhook, attempts, ctx) {
  const tab = ctx.state.tab ?? "all",
    isOf = { all: () => true, failed: one => one.outcome !== "delivered",
    delivered: one => one.outcome === "delivered" };
  const columns = [{ name: "at", label: text("backend.at"), kind: "main" },
    { name: "type", label: text("webhooks.type") }, { name: "outcome", label: text("webhooks.answer"), kind: "wide" },
    { name: "attempt", label: text("webhooks.attempt"), kind: "number" },
    { name: "ms", label: text("webhooks.duration"), kind: "number" },
    { name: "actions", label: text("base.actions"), kind: "end" }];
  const rows = attempts.filter(isOf[tab]).map(
    one => ({ key: one.id + "/" + one.attempt + one.at, name: one.id, state: one.outcome, cells: [
    when(one.at), code(one.type), attemptOutcome(one), number(one.attempt), number(one.duration_ms),
    actionButton({ name: "replay", id: one.id + one.at, action: "webhooks", label: text("webhooks.replay"),
        run: () => replayDialog(webhook, one) })] }));
  return section(text("webhooks.attempts"), { key: "attempts" },
    choiceGroup("tab", text("backends.state"),
      Object.keys(isOf).map(one => [one, text("webhooks.tab_" + one, { count: attempts.filter(isOf[one]).length })]),
      tab, one => { ctx.state.tab = one; ctx.redraw(); }),
    rows.length === 0 ? el("p", "soft", text("webhooks.no_attempts"))
      : table({ name: "attempts", label: text("webhooks.attempts"), columns, rows }));
}

/** Asks before one message is sent again, which the receiver may have. */
function replayDialog(webhook, attempt) {
  const path = `/v1/webhooks/${part(webhook.name)}/recover`;
  return confirmAction({
    name: "replay", title: text("webhooks.replay"),
    preview: async () =>
      ({ count: 1, title: text("webhooks.replay_title", { name: webhook.name }),
        verb: text("webhooks.replay_verb", { count: 1 }), lines: [text("webhooks.replay_note")] }),
    run: () => api.post(path, { id: attempt.id }),
  }).then(answer => answer && told(text("webhooks.recovered", { count: answer.messages, name: webhook.name })));
}
/** Asks since when what was given up, or happened while the webhook was off, is sent again. */
function recoverDialog(webhook) {
  const path = `/v1/webhooks/${part(webhook.name)}/recover`, spans = ["1h", "6h", "24h", "7d"];
  return confirmAction({
    name: "recover", title: text("webhooks.recover"), values: { since: "24h" },
    fields: (values, change) =>
      choice({ name: "since", label: text("dead.since"), value: values.since,
        options: spans.map(one => [one, spanText(one)]), onchange: event => change({ since: event.target.value }) }),
    preview: async () =>
      ({ count: webhook.failed, isReady: true, title: text("webhooks.recover_title", { name: webhook.name }),
        verb: text("webhooks.recover_verb"),
      lines: [text("webhooks.recover_note", { count: webhook.failed })] }),
    run: values => api.post(path, { since: toTime(values.since) }),
  }).then(answer => answer && told(text("webhooks.recovered", { count: answer.messages, name: webhook.name })));
}
/** Makes a new signing key, and shows it once. */
function rotateDialog(webhook) {
  return confirmAction({
    name: "rotate", title: text("webhooks.rotate"), values: { hours: 24 },
    fields: (values, change) =>
      field({ name: "hours", label: text("webhooks.keep_old"), inputmode: "numeric", value: String(values.hours),
        onchange: event => change({ hours: wholeNumber(event.target.value, 24, 168) }) }),
    preview: async values =>
      ({ count: 1, title: text("webhooks.rotate_title", { name: webhook.name }), verb: text("webhooks.rotate_verb"),
        lines: [text("webhooks.rotate_note", { time: duration(values.hours * 3600) })] }),
    run: values => api.post(`/v1/webhooks/${part(webhook.name)}/rotate`, { keep_old: values.hours * 3600 }),
  }).then(answer => answer && showSecret(answer).then(() => ctx.reload()));
}
const showSecret = answer => openDialog(dialog => el("form", { method: "dialog", "aria-labelledby": "dialog-title" },
  dialogHead(text("webhooks.secret_title")), el("p", null, text("webhooks.secret_once")), command(answer.secret),
  el("p", "buttons", el("button", { type: "submit", class: "main", key: "close" }, text("base.close")))),
  { name: "secret" });
