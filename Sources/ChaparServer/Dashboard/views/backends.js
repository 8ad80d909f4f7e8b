// The backends: the ones in trouble first, each with its state and why, its load, and the ends of its credentials.

addView({
  path: "/backends",
  title: "backends.title",
  needs: ["read"],
  async load(params, signal) {
    return api.get("/v1/backends", {}, signal);
  },
  live(news, ctx) {
    if (!news.lanes || !current.data) return;
    current.data = { ...current.data, backends: backendsWith(current.data.backends, news.lanes) };
  },
  draw(data, ctx) {
    const rows = data.backends.map(one => [one, backendState(one)]);
    // Trouble stands first; among equals the order of the configuration stays, so that rows do not move.
    rows.sort(([, a], [, b]) => (a.tone === "bad" ? 0 : a.tone === "wait" ? 1 : 2) - (b.tone === "bad" ? 0
        : b.tone === "wait" ? 1 : 2));
    const own = credentialsOf(data, data.credential_warning_days).filter(one => one.kind !== "later");
    return [
      heading(text("backends.title")),
      data.nodes?.length > 1 &&
        el("p", { class: "soft", key: "nodes" },
        text("backends.nodes", { count: data.nodes.length, names: listOf(data.nodes.map(one => one.name)) })),
      own.length > 0 && el("div", { class: "card", key: "own" },
        pieces("backends.gateway", { credentials: own.map(credentialLine) }), renewal({})),
      rows.length === 0 ? emptyState(text("backends.none"), command("chapar init"))
        : backendsTable(rows, data.credential_warning_days, ctx),
      renewalCard(rows, ctx),
    ];
  },
});

/** How the credential of a backend is renewed. It stands under the table, so that opening it moves no row. */
function renewalCard(rows, ctx) {
  const [backend] = rows.find(([one]) => one.name === ctx.state.renewal) ?? [];
  return backend && el("div", { class: "card", key: "renewal", "data-renewal": backend.name, role: "status" },
    el("h2", null, pieces("backends.renewal_of", { name: code(backend.name) })), renewalSteps(backend));
}

function backendsTable(rows, warningDays, ctx) {
  const isLimited = rows.some(([one]) => workerOf(one).quota);
  const columns = [
    { name: "name", label: text("backends.name"), kind: "main" },
    { name: "state", label: text("backends.state"), kind: "wide" },
    { name: "load", label: text("backends.in_flight"), kind: "number" },
    { name: "waiting", label: text("backends.waiting"), kind: "number" },
    { name: "oldest", label: text("backends.oldest"), kind: "number" },
    ...isLimited ? [{ name: "quota", label: text("backends.quota"), kind: "number" }] : [],
    { name: "ends", label: text("backends.ends") },
  ];
  return table({ name: "backends", label: text("backends.title"), columns,
      rows: rows.map(([one, state]) => backendRow(one, state, warningDays, isLimited, ctx)) });
}
function backendRow(backend, state, warningDays, isLimited, ctx) {
  const worker = workerOf(backend), ends = credentialsOf(backend, warningDays);
  const isSoon = ends.some(one => one.kind !== "later");
  return {
    key: backend.name, name: backend.name, state: state.name,
    cells: [
      [rowLink(href("/backends/" + part(backend.name)), el("b", null, code(backend.name))), " ",
        el("span", "soft", code(backend.kind))],
      [backendChip(state), el("p", "note", backendWhy(state, 160)),
        needsRetry(state) && el("p", "buttons", retryButton(backend))],
      text("backends.of", { count: number(worker.in_flight), window: number(worker.window) }),
      number(worker.waiting),
      worker.oldest_age != null && duration(worker.oldest_age),
      ...isLimited ? [worker.quota && percent(worker.quota.used)] : [],
      ends.length > 0 && [ends.map(credentialLine),
        isSoon && el("button", { type: "button", class: "link", "data-action": "how-to-renew",
        onclick: () => { ctx.state.renewal = backend.name; ctx.redraw(); } }, text("backends.how_to_renew"))],
    ],
  };
}
