// Quarantined tokens: which backends stopped because too many tokens were called dead, and what an operator decides.

addView({
  path: "/quarantine",
  title: "quarantine.title",
  needs: ["read"],
  async load(params, signal) {
    const answer = await api.get("/v1/invalidations", {}, signal);
    setBadge("/quarantine", (answer.backends ?? []).length);
    return answer;
  },
  live(news, ctx) {
    if (news.note?.type.startsWith("backend.invalidations_") && isReloadDue(1)) ctx.reload();
  },
  draw(data) {
    const held = data.backends ?? [];
    return [
      heading(text("quarantine.title")),
      held.length === 0 ? emptyState([icon("accepted_by_platform", "good"), " ", text("quarantine.none")])
        : held.map(one => el("article", { class: "card", key: one.backend, "data-row": one.backend },
            el("h2", null, code(one.backend)), quarantineFacts(one),
          el("p", "buttons", el("a",
              { class: "button main", href: href("/quarantine/" + part(one.backend)), "data-open": true,
                "data-action": "decide" }, text("quarantine.decide"))))),
    ];
  },
});

addView({
  path: "/quarantine/:backend",
  title: data => text("quarantine.of", { backend: data.backend }),
  needs: ["read"],
  async load(params, signal) {
    const [all, page] = await Promise.all([api.get("/v1/invalidations", {}, signal),
        api.get("/v1/invalidations", { backend: params.backend, limit: 50, cursor: params.cursor }, signal)]);
    return { backend: params.backend, held: (all.backends ?? []).find(one => one.backend === params.backend),
      items: page.items ?? [], next: page.next };
  },
  draw(data) {
    const { held, backend } = data;
    return [
      backLink("/quarantine", text("quarantine.title")),
      heading(pieces("quarantine.of", { backend: code(backend) }), held && el("div", "buttons",
        actionButton({ name: "discard", id: backend, action: "quarantine", kind: "main",
            label: text("quarantine.discard"), run: () => decide(backend, "discard") }),
        actionButton({ name: "release", id: backend, action: "quarantine", kind: "harm",
            label: text("quarantine.release"), run: () => decide(backend, "release") }))),
      held ? [el("div", { class: "card", key: "facts" }, quarantineFacts(held)), quarantineTokens(data)]
        : emptyState([icon("accepted_by_platform", "good"), " ", text("quarantine.none_of", { backend })]),
    ];
  },
});

function quarantineFacts(held) {
  const share = held.answers ? held.dead / held.answers : null;
  return [
    el("p", { key: "chip" },
      held.stopped ? mark("bad", "pause", text("quarantine.stopped"))
      : mark("wait", "warning", text("quarantine.goes_on")), " ",
      held.stopped_at && [pieces("quarantine.since", { time: when(held.stopped_at) })]),
    el("p", { key: "count" },
      el("b", { "data-count": held.quarantined }, text("quarantine.held", { count: held.quarantined })), " ",
      share != null && text("quarantine.share", { share: percent(share), count: held.answers })),
    el("p", { key: "reasons" },
      Object.entries(held.reasons ??
        {}).map(([reason, count]) => el("span", { key: reason }, code(reason), " ", number(count), " "))),
    el("p", { class: "soft", key: "why" }, text("quarantine.why")),
  ];
}
function quarantineTokens(data) {
  const columns = [{ name: "device", label: text("quarantine.device"), kind: "main" },
    { name: "user", label: text("quarantine.user") }, { name: "service", label: text("quarantine.service") },
    { name: "reason", label: text("dead.by_reason") }, { name: "at", label: text("backend.at"), kind: "end" }];
  const rows = data.items.map(one => ({ key: one.device + one.service, name: one.device, cells: [
    rowLink(href("/devices/" + part(one.device)), code(one.device)),
    one.user && el("a", { href: href("/users/" + part(one.user)) }, words(one.user)), code(one.service),
    code(one.reason), when(one.at)] }));
  return [table({ name: "tokens", label: text("quarantine.tokens"), columns, rows }),
    data.next && el("p", { key: "more" },
      el("a", { class: "button", href: href("/quarantine/" + part(data.backend), { cursor: data.next }) },
        text("backends.older")))];
}

/**
 * Asks for the decision: `release` marks the tokens dead, `discard` says that they are alive; both let the backend send
 * again.
 */
function decide(backend, action) {
  const path = `/v1/backends/${part(backend)}/invalidations`;
  return confirmAction({
    name: action, title: text("quarantine." + action), mustType: action === "release",
    async preview(values, signal) {
      const { tokens } = await api.post(path, { action, dry_run: true }, { signal });
      return { count: tokens, title: text(`quarantine.${action}_title`, { count: tokens }),
        verb: text(`quarantine.${action}_verb`, { count: tokens }), lines: [text(`quarantine.${action}_note`)] };
    },
    run: () => api.post(path, { action }),
  }).then(answer => answer && told(text(`quarantine.${action}_done`, { count: answer.tokens, backend })));
}
