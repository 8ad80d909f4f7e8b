// One backend: its state and what to do, its numbers, its charts, its last refusals, and a diagnosis on request.

const ranges = ["1h", "24h", "7d"];

addView({
  path: "/backends/:name",
  title: data => data.backend.name,
  needs: ["read"],
  async load(params, signal) {
    const range = ranges.includes(params.range) ? params.range : "1h";
    const [all, series, refusals] = await Promise.all([
      api.get("/v1/backends", {}, signal),
      api.maybe("/v1/series", { range, backend: params.name }, signal),
      api.maybe("/v1/deliveries", { backend: params.name, state: "failed,expired,unknown", limit: 20 }, signal),
    ]);
    const backend = all.backends.find(one => one.name === params.name);
    if (!backend) throw new Refusal({ status: 404, title: text("base.gone") });
    return { backend, others: all.backends.filter(one => one !== backend && !one.gone),
      warningDays: all.credential_warning_days, range, series, refusals };
  },
  live(news) {
    const found = news.lanes?.backends.some(one => one.name === current.data?.backend.name);
    if (!found) return;
    const [backend] = backendsWith([current.data.backend],
      { backends: news.lanes.backends.filter(one => one.name === current.data.backend.name) });
    current.data = { ...current.data, backend };
  },
  draw(data, ctx) {
    const { backend } = data, state = backendState(backend);
    return [
      backLink("/backends", text("backends.title")),
      heading([code(backend.name), " ", el("span", "soft", code(backend.kind))],
        backendButtons(backend, state, data, ctx)),
      el("div", { class: "card state", key: "state", "data-state": state.name },
        el("p", null, backendChip(state), " ", backendWhy(state)),
        backendAdvice(backend, state, data.warningDays)),
      backendFacts(backend, data.warningDays),
      ctx.state.diagnosis && diagnosisSection(ctx.state.diagnosis),
      data.series && backendCharts(data, ctx),
      data.refusals && refusalsSection(data.refusals.items, backend),
    ];
  },
});

function backendButtons(backend, state, data, ctx) {
  return el("div", "buttons",
    needsRetry(state) && !backend.gone && retryButton(backend, "main"),
    isQuarantined(workerOf(backend)) &&
      el("a", { class: "button main", href: href("/quarantine/" + part(backend.name)), "data-action": "decide" },
      text("quarantine.decide")),
    !backend.gone && actionButton({ name: "diagnose", id: backend.name, label: text("backend.diagnose"),
        run: () => diagnose(backend, ctx) }),
    backend.gone && actionButton({ name: "move", id: backend.name, label: text("backend.move"),
        run: () => moveDialog(backend, data.others) }),
    backend.gone && actionButton({ name: "drain", id: backend.name, kind: "harm", label: text("backend.drop"),
        run: () => dropDialog(backend) }));
}
/** What to do about the state, in the order of the hands. */
function backendAdvice(backend, state, warningDays) {
  const lines = hasText("backend.advice_" + state.name) ? [text("backend.advice_" + state.name)] : [];
  const isSoon = credentialsOf(backend, warningDays).some(one => one.kind !== "later");
  return [
    lines.length > 0 && el("p", { key: "advice" }, lines),
    state.reason && command("chapar explain " + state.reason),
    state.name === "parked" && command("chapar doctor --config chapar.yaml"),
    isSoon && renewal(backend),
  ];
}
function backendFacts(backend, warningDays) {
  const worker = workerOf(backend), ends = credentialsOf(backend, warningDays), quota = worker.quota;
  return facts([
    [text("backends.in_flight"),
      text("backends.of", { count: number(worker.in_flight), window: number(worker.window) })],
    [text("backends.waiting"), number(worker.waiting)],
    [text("backends.oldest"), duration(worker.oldest_age)],
    [text("backend.breaker"), text("backend.breaker_" + worker.breaker)],
    [text("backends.quota"),
      quota && text("backend.quota", { used: percent(quota.used), rate: number(quota.per_second) })],
    [text("backend.connections"), number(backend.health.connections)],
    [text("backend.takes"),
      backend.audience && [...backend.audience.services,
        ...backend.audience.forms].flatMap((one, index) => [index > 0 && " ", code(one)])],
    [text("backend.abilities"),
      backend.abilities?.length > 0 && backend.abilities.flatMap((one, index) => [index > 0 && " ", code(one)])],
    [text("backend.operations"),
      backend.operations?.waiting > 0 &&
      [number(backend.operations.waiting), " · ", duration(backend.operations.oldest_age)]],
    [text("backends.ends"), ends.length > 0 && ends.map(credentialLine)],
  ]);
}

async function diagnose(backend, ctx) {
  ctx.state.diagnosis = { ...await api.post(`/v1/backends/${part(backend.name)}/diagnose`, {}),
    at: new Date(now()).toISOString() };
}
/** The steps of a diagnosis; it stays until the view is left. */
function diagnosisSection(found) {
  const shapes = { ok: ["good", "accepted_by_platform"], warning: ["wait", "warning"], failure: ["bad", "failed"] };
  return section([text("backend.diagnosis"), " ", el("span", "soft", when(found.at))],
    { key: "diagnosis", "data-diagnosis": found.ok ? "ok" : "failure" },
    el("ol", "steps", found.steps.map(step => el("li", { key: step.name, "data-step": step.ok ? "ok" : "failure" },
      mark(...shapes[step.verdict ?? (step.ok ? "ok" : "failure")], words(step.name)), " ", words(step.text),
      step.fix && el("p", null, el("b", null, text("timeline.what_to_do")), " ", words(step.fix))))));
}

function backendCharts(data, ctx) {
  const { series } = data, own = series.series;
  const line = (name, tone) => ({ name, tone, label: text("backend.series_" + name), values: own[name] ?? [] });
  const shared = { from: series.from, step: series.step, gaps: series.gaps, state: ctx.state, redraw: ctx.redraw };
  return section(text("backend.charts"), { key: "charts" },
    choiceGroup("range", text("backend.range"), ranges.map(one => [one, spanText(one)]), data.range,
      range => go("/backends/" + part(data.backend.name), { range })),
    el("div", "charts",
      chart({ ...shared, name: "throughput", label: text("backend.throughput"),
          series: [line("handed_over", "good"), line("arrived", "accent")] }),
      chart({ ...shared, name: "failures", label: text("backend.failures"),
          series: [line("failed", "bad"), line("expired", "wait"), line("unknown", "unsure"),
            line("retried", "soft")] }),
      chart({ ...shared, name: "age", label: text("backend.age"), series: [line("oldest", "accent")],
          format: duration })));
}

function refusalsSection(items, backend) {
  const columns = [{ name: "state", label: text("backends.state"), kind: "main" },
    { name: "reason", label: text("dead.by_reason") },
    { name: "who", label: text("backend.recipient") }, { name: "at", label: text("backend.at"), kind: "end" }];
  const rows = items.map(one => {
    const last = one.attempts?.at(-1);
    return { key: one.notification + "/" + one.delivery, name: one.notification, state: one.state, cells: [
      rowLink(href("/messages/" + part(one.notification), { delivery: one.delivery }), chip(one.state)),
      last?.reason && [code(last.reason), last.status && [" ", code(last.status)]], recipientOf(one.recipient),
      when(one.state_at ?? one.created_at)] };
  });
  return section(text("backend.refusals"), { key: "refusals" },
    rows.length === 0 ? el("p", "soft", text("backend.no_refusals"))
    : [table({ name: "refusals", label: text("backend.refusals"), columns, rows }),
      el("p", "note", el("a", { href: href("/messages", { backend: backend.name, state: "failed,expired,unknown" }) },
          text("backends.all")))]);
}

// The deliveries that wait for a backend that is gone

function moveDialog(backend, others) {
  const path = `/v1/backends/${part(backend.name)}/move`,
    usual = others.find(one => one.kind === backend.kind) ?? others[0];
  return confirmAction({
    name: "move", title: text("backend.move"), values: { to: usual?.name },
    fields: (values, change) =>
      choice({ name: "to", label: text("backend.move_to"), value: values.to,
        options: others.map(one => [one.name, one.name]), onchange: event => change({ to: event.target.value }) }),
    async preview(values, signal) {
      const { moved } = await api.post(path, { to: values.to, dry_run: true }, { signal });
      return { count: moved, title: text("backend.move_title", { count: moved, from: backend.name, to: values.to }),
        verb: text("backend.move_verb", { count: moved }), lines: [text("backend.move_note")] };
    },
    run: (values, key) => api.post(path, { to: values.to }, { idempotency: key }),
  }).then(answer => answer && told(text("backend.moved", { count: answer.moved, to: answer.to })));
}
function dropDialog(backend) {
  const path = `/v1/backends/${part(backend.name)}/drop`;
  return confirmAction({
    name: "drain", title: text("backend.drop"), mustType: true,
    async preview(values, signal) {
      const { dropped } = await api.post(path, { dry_run: true }, { signal });
      return { count: dropped, title: text("backend.drop_title", { count: dropped, from: backend.name }),
        verb: text("backend.drop_verb", { count: dropped }), lines: [text("backend.drop_note")] };
    },
    run: (values, key) => api.post(path, {}, { idempotency: key }),
  }).then(answer => answer && told(text("backend.dropped", { count: answer.dropped })));
}
