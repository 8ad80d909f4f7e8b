// A device: its tokens, what platforms still have to be told, its subscription, and its last messages.

addView({
  path: "/devices/:id",
  title: data => data.device.id,
  needs: ["devices"],
  async load(params, signal) {
    const path = "/v1/devices/" + part(params.id), app = { app: params.app };
    const [device, waiting, found, all] = await Promise.all([api.get(path, app, signal),
        api.maybe(path + "/operations", app, signal),
      api.maybe(path + "/deliveries", { limit: 10, ...app }, signal),
      hasScope(["read"]) ? api.maybe("/v1/backends", {}, signal) : null]);
    const keepers = (all?.backends ?? []).filter(one => one.abilities?.includes("subscriptions") && !one.gone);
    return { device, operations: waiting?.items ?? [], deliveries: found?.items, keepers };
  },
  draw({ device, operations, deliveries, keepers }, ctx) {
    const change = name =>
      actionButton({ name, action: "edit_device", label: text("device." + name),
        run: () => subscriptionDialog(device, name, ctx) });
    return [
      heading(code(device.id), el("div", "buttons",
        actionButton({ name: "send-test", action: "send_test", kind: "main", label: text("device.send_test"),
            run: () => testDialog(device, ctx) }), change("subscribe"), change("suspend"), change("unsubscribe"))),
      ctx.state.test && el("p", { class: "card", key: "test", "data-test": "sent" },
        pieces("device.test_sent",
          { id: el("a", { href: href("/messages/" + part(ctx.state.test.id)) }, code(ctx.state.test.id)),
            where: listOf(ctx.state.test.backends) })),
      deviceFacts(device),
      section(text("device.tokens"), { key: "tokens" }, tokenList(device.tokens)),
      section(text("device.tags"), { key: "tags" },
        tagEditor({ name: "tags", label: text("device.tags"), tags: device.tags ?? [],
            change: can("edit_tags") && (tags => perform("tags", () => setDeviceTags(device, tags, ctx))) })),
      section(text("device.operations"), { key: "operations" }, operationList(operations)),
      keepers.length > 0 &&
        section(text("device.at_platforms"), { key: "platforms" },
        keepers.map(one => keeperLine(one.name, device, ctx))),
      deliveries && section(text("device.messages"), { key: "messages" },
        deliveries.length === 0 ? el("p", "soft", text("device.no_messages")) : deliveryTable(deliveries),
        el("p", "note", el("a", { href: href("/messages", { device: device.id, app: appOf(device) }) },
            text("backends.all")))),
    ];
  },
});

/**
 * How a platform says the subscription stands; it is asked only on request, since each question is a request to the
 * platform.
 */
function keeperLine(backend, device, ctx) {
  const found = (ctx.state.subscriptions ??= {})[backend];
  const ask = async () => {
    ctx.state.subscriptions[backend] = await api.get(`/v1/devices/${part(device.id)}/subscription`,
      { backend, app: ctx.params.app });
  };
  return el("p", { class: "row-line", key: backend, "data-keeper": backend }, code(backend),
    found && el("span", { "data-status": found.status ?? "none" }, text("device.status_" + (found.status ?? "none"))),
    actionButton({ name: "ask", id: backend, action: "edit_device", label: text("device.ask"), run: ask }));
}
/** The deliveries to the device: state, the platform's reason, backend and time. */
function deliveryTable(items) {
  const columns = [{ name: "state", label: text("backends.state"), kind: "main" },
    { name: "reason", label: text("dead.by_reason") }, { name: "backend", label: text("dead.by_backend") },
    { name: "message", label: text("device.message") }, { name: "at", label: text("backend.at"), kind: "end" }];
  return table({ name: "deliveries", label: text("device.messages"), columns,
      rows: items.map(one =>
        ({ key: one.notification + "/" + one.delivery, name: one.notification, state: one.state, cells: [
    rowLink(href("/messages/" + part(one.notification), { delivery: one.delivery }), chip(one.state)),
    code(one.attempts?.at(-1)?.reason), code(one.backend),
    one.campaign_name ? words(one.campaign_name) : code(one.reference ?? one.notification),
    when(one.created_at)] })) });
}
async function setDeviceTags(device, tags, ctx) {
  const path = "/v1/devices/" + part(device.id) + queryOf({ app: ctx.params.app }), before = device.tags ?? [];
  await api.patch(path, { tags });
  toast(text("device.tags_set", { device: device.id }),
    { undo: async () => { await api.patch(path, { tags: before }); await ctx.reload(); } });
  await ctx.reload();
}
/** Asks before platforms are told how the device's subscription stands. */
function subscriptionDialog(device, verb, ctx) {
  const status = { subscribe: "subscribed", suspend: "suspended", unsubscribe: "unsubscribed" }[verb];
  return confirmAction({
    name: verb, title: text("device." + verb),
    preview: async () =>
      ({ count: 1, title: text(`device.${verb}_title`, { device: device.id }), verb: text(`device.${verb}_verb`),
        lines: [text(`device.${verb}_note`)] }),
    run: () => api.put(`/v1/devices/${part(device.id)}/subscription` + queryOf({ app: ctx.params.app }), { status }),
  }).then(answer => answer &&
    told(answer.operations?.length
    ? text("device.told_platforms",
    { count: answer.operations.length, names: listOf(answer.operations.map(one => one.backend)) }) : text(
    "device.told_here")));
}
/** Asks for the text of a test, which lives ten minutes, and sends it to this device alone. */
function testDialog(device, ctx) {
  const message = values =>
    ({ to: { devices: [device.id] }, ...(ctx.params.app && { app: ctx.params.app }),
      content: { title: values.title, body: text("device.test_body") }, options: { ttl: 600 } });
  return confirmAction({
    name: "send-test", title: text("device.send_test"), values: { title: text("device.test_title") },
    fields: (values, change) =>
      field({ name: "title", label: text("device.title"), dir: "auto", value: values.title, maxlength: "100",
        onchange: event => change({ title: event.target.value || text("device.test_title") }) }),
    preview: async () =>
      ({ count: 1, title: text("device.test_question", { device: device.id }), verb: text("device.test_verb"),
        lines: [text("device.test_note", { time: duration(600) })] }),
    run: (values, key) => api.post("/v1/notifications", message(values), { idempotency: key }),
  }).then(async answer => {
    if (!answer) return;
    const found = await api.maybe(`/v1/notifications/${part(answer.id)}/deliveries`, { limit: 10 });
    ctx.state.test = { id: answer.id, backends: [...new Set((found?.items ?? []).map(one => one.backend))] };
    await ctx.reload();
  });
}
