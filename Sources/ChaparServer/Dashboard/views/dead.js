// Dead letters: what failed for a cause that can be mended, counted by reason, backend or app. Mend the cause once,
// then
// send all of it again.

const deadGroups = { reason: ["reason", "backend"], backend: ["backend"], app: ["app"] };
const deadSpans = ["1h", "24h", "7d", "30d"];

addView({
  path: "/dead",
  title: "dead.title",
  needs: ["read"],
  async load(params, signal) {
    const by = deadGroups[params.by] ? params.by : "reason", since = params.since || "24h";
    const request = { by: deadGroups[by].join(","), since: toTime(since) };
    const counts = await api.get("/v1/deliveries/counts", request, signal);
    setBadge("/dead", counts.total);
    return { ...counts, by, since, frozenSince: request.since };
  },
  draw(data, ctx) {
    const open = more => go("/dead", { by: data.by, since: data.since, ...more });
    return [
      heading(text("dead.title")),
      el("div", { class: "choice-bar", key: "choices" },
        choiceGroup("since", text("dead.since"), deadSpans.map(one => [one, spanText(one)]), data.since,
          since => open({ since })),
        choiceGroup("by", text("dead.by"), Object.keys(deadGroups).map(one => [one, text("dead.by_" + one)]), data.by,
          by => open({ by }))),
      data.items.length === 0
        ? emptyState([icon("accepted_by_platform", "good"), " ", text("dead.none", { span: spanText(data.since) })])
        : deadTable(data),
      data.next && el("p", { class: "note", key: "partial", "data-partial": true }, data.looked_back_to
        ? pieces("dead.looked_back", { time: when(data.looked_back_to) }) : text("dead.not_all")),
    ];
  },
});

/** A span such as `24h`, in words. */
function spanText(span) {
  const found = /^(\d+)([mhd])$/.exec(span);
  return found ? duration(Number(found[1]) * { m: 60, h: 3600, d: 86400 }[found[2]]) : span;
}
/** Buttons of which one is chosen. */
function choiceGroup(name, label, options, value, change) {
  return el("div", { class: "chips", role: "group", "aria-label": label, key: name },
    el("span", { class: "soft label", "aria-hidden": "true" }, label),
    options.map(([one, shown]) => el("button",
        { type: "button", key: one, "data-choice": one, "aria-pressed": String(one === value),
          onclick: () => change(one) }, shown)));
}

function deadTable(data) {
  const names = deadGroups[data.by];
  const columns = [
    ...names.map((name, index) => ({ name, label: text("dead.by_" + name), kind: index === 0 ? "main" : "" })),
    { name: "count", label: text("dead.count"), kind: "number" },
    { name: "cause", label: text("dead.cause"), kind: "wide" },
    { name: "actions", label: text("base.actions"), kind: "end" },
  ];
  return table({ name: "dead", label: text("dead.title"), columns,
      rows: data.items.map(item => deadRow(item, names, data)) });
}
function deadRow(item, names, data) {
  const filter = { dead: true, since: data.frozenSince };
  for (const name of names) if (item[name]) filter[name] = name === "app" ? item.app : [item[name]];
  const shown = { dead: "true", since: data.since,
    ...Object.fromEntries(names.filter(name => item[name]).map(name => [name, item[name]])) };
  const key = names.map(name => item[name] ?? "").join("/");
  // A group without a name cannot be told from the others by a filter: it is only shown.
  const isNamed = names.every(name => item[name]);
  return {
    key, name: key, state: item.cause,
    cells: [
      ...names.map((name, index) => index === 0
        ? rowLink(href("/messages", shown), el("b", null, item[name] ? code(item[name]) : text("dead.no_" + name)))
        : code(item[name]) ?? "–"),
      el("span", { "data-count": item.count }, number(item.count)),
      [causeChip(item), item.unknown > 0 &&
        el("p", "note", icon("unknown", "unsure"), " ", text("dead.unknown", { count: item.unknown })),
        explanation(item.explanation)],
      isNamed && el("div", "buttons", resendButton(item, key, filter),
        actionButton({ name: "acknowledge", id: key, label: text("dead.acknowledge"),
            run: () => acknowledgeDialog(filter) }),
        el("a", { class: "button", href: href("/messages", shown), "data-action": "show" }, text("dead.show"))),
    ],
  };
}
/** Whether the cause is gone; nothing where the gateway does not say. */
function causeChip(item) {
  const shapes = { gone: ["good", "accepted_by_platform"], there: ["bad", "failed"], lasting: ["soft", "dot"] };
  return item.cause && shapes[item.cause] && mark(...shapes[item.cause], text("dead.cause_" + item.cause));
}
/** A resend before the cause is mended would fail again, so it is off and says why. */
function resendButton(item, key, filter) {
  if (item.cause === "there") {
    return can("resend") &&
      el("button", { type: "button", disabled: true, "data-action": "resend", title: text("dead.mend_first"),
        key: "resend" }, text("dead.resend"));
  }
  return actionButton({ name: "resend", id: key, kind: "main", label: text("dead.resend"),
      run: () => resendDialog({ filter }) });
}
