// A user: devices and the health of their tokens, tags, lists, and the last messages.

addView({
  path: "/users/:id",
  title: data => data.user,
  needs: ["devices"],
  async load(params, signal) {
    const user = await api.get("/v1/users/" + part(params.id), { app: params.app }, signal);
    const waiting = await Promise.all(user.devices.slice(0,
        3).map(one => api.maybe(`/v1/devices/${part(one.id)}/operations`, { app: params.app }, signal)));
    return { ...user, waiting: Object.fromEntries(
        waiting.map((found, index) => [user.devices[index].id, found?.items ?? []])) };
  },
  draw(data, ctx) {
    const messages = data.notifications?.items ?? [];
    return [
      heading(words(data.user), el("div", "buttons",
        can("send") && el("a",
          { class: "button main", href: href("/send", { to: "user:" + data.user, app: ctx.params.app }),
            "data-action": "send-to" }, text("person.send_to")),
        actionButton({ name: "erase", kind: "harm", label: text("person.erase"), run: () => eraseDialog(data, ctx) }))),
      facts([
        [text("device.app"), data.app !== "default" && code(data.app)],
        [text("person.devices"), number(data.devices.length)],
        [text("person.last_message"), messages[0] && when(messages[0].created_at)],
        [text("person.user_tags"),
          tagEditor({ name: "user-tags", label: text("person.user_tags"), tags: data.user_tags ?? [],
              change: can("edit_tags") && (tags => perform("user tags", () => setUserTags(data, tags, ctx))) })],
        [text("person.lists"), Object.keys(data.lists ?? {}).length > 0 && listSwitches(data, ctx)]]),
      section(text("person.devices"), { key: "devices" },
        data.devices.length === 0 ? emptyState(text("person.no_devices"))
        : data.devices.map(one => personDevice(one, data.waiting[one.id] ?? []))),
      section(text("device.messages"), { key: "messages" },
        messages.length === 0 ? el("p", "soft", text("device.no_messages")) : lastMessages(messages.slice(0, 10)),
        hasScope(["read"]) &&
          el("p", "note", el("a", { href: href("/messages", { user: data.user, app: appOf(data) }) },
            text("backends.all")))),
    ];
  },
});

function personDevice(device, operations) {
  return el("article", { class: "card", key: device.id, "data-row": device.id },
    el("h3", null, el("a", { href: href("/devices/" + part(device.id), { app: appOf(device) }), "data-open": true },
        code(device.id)), " ",
      el("span", "soft", flattened([device.platform && code(device.platform), device.locale && code(device.locale),
            device.app_version && code(device.app_version)]).flatMap((one, index) => index ? [" ", one] : [one]))),
    tokenList(device.tokens),
    device.tags?.length > 0 &&
      el("p", "note", text("device.tags"), " ",
      device.tags.flatMap((one, index) => [index > 0 && " ", el("span", "tag", words(one))])),
    operations.length > 0 && [el("p", null, text("device.waits_at")), operationList(operations)]);
}
async function setUserTags(data, tags, ctx) {
  const path = `/v1/users/${part(data.user)}/tags` + queryOf({ app: ctx.params.app }), before = data.user_tags ?? [];
  await api.put(path, { tags });
  toast(text("person.tags_set", { user: data.user }),
    { undo: async () => { await api.put(path, { tags: before }); await ctx.reload(); } });
  await ctx.reload();
}
/** A switch for each list: whether the user gets its messages. */
function listSwitches(data, ctx) {
  const set = (name, wanted) => api.put(`/v1/users/${part(data.user)}/lists` + queryOf({ app: ctx.params.app }),
    { lists: { [name]: wanted } });
  return Object.entries(data.lists).map(
    ([name, one]) => checkbox({ name: "list-" + name, "data-list-switch": name, checked: one.in,
        disabled: !can("edit_lists") || isLost(),
    label: [words(name), " ", el("span", "soft", text(one.chosen ? "person.chosen" : "person.by_default"))],
    onchange: event => perform("list " + name, async () => {
      const wanted = event.target.checked;
      await set(name, wanted);
      toast(text(wanted ? "person.list_in" : "person.list_out", { user: data.user, list: name }),
        { undo: async () => { await set(name, one.chosen ? one.in : null); await ctx.reload(); } });
      await ctx.reload();
    }) }));
}
/** Asks before everything that is kept of a user is erased. The number of devices is typed. */
function eraseDialog(data, ctx) {
  const path = "/v1/users/" + part(data.user), params = { app: ctx.params.app };
  return confirmAction({
    name: "erase", title: text("person.erase"), mustType: true,
    async preview(values, signal) {
      const user = await api.get(path, params, signal);
      const tokens = user.devices.reduce((sum, one) => sum + Object.keys(one.tokens ?? {}).length, 0);
      return { count: user.devices.length, isReady: true, title: text("person.erase_title", { user: data.user }),
        verb: text("person.erase_verb", { count: user.devices.length }),
        lines: [text("person.erase_note", { count: user.devices.length, tokens }), text("person.erase_messages")] };
    },
    run: () => api.delete(path, params),
  }).then(answer => {
    if (!answer) return;
    toast(text(answer.complete ? "person.erased" : "person.erasing", { user: data.user, count: answer.devices }));
    go("/");
  });
}
