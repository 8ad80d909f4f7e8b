// One message: what it said, and what became of it for each recipient.
{
  const pageSize = 50, refreshSeconds = 2, mostOpen = 200;
  let refreshedAt = 0;

  async function load(params, signal) {
    const path = "/v1/notifications/" + part(params.id);
    const [message, deliveries] = await Promise.all([api.get(path, null, signal),
      api.get(path + "/deliveries", { state: params.state, cursor: params.cursor, limit: pageSize }, signal)]);
    refreshedAt = Date.now();
    return { message, deliveries: deliveries.items, next: deliveries.next, cursor: params.cursor, state: params.state };
  }

  const title = data => textOf(data.message) ?? data.message.id;
  const textOf = message => message.audience?.name ?? textIn(message.notification?.content?.title, language) ??
    textIn(message.notification?.content?.body, language);

  function draw(data, ctx) {
    const { message } = data;
    return [
      backLink("/messages", text("base.nav_messages")),
      heading(textOf(message) ? words(textOf(message)) : text("messages.untitled"), code(message.id),
        copyButton(message.id), buttons(data, ctx)),
      message.audience && campaign(message, ctx),
      el("div", { class: "columns", key: "columns" },
        section(text("message.recipients"), { class: "wide", "data-part": "recipients" }, stateFilter(data),
          recipients(data, ctx), pages(data)),
        el("div", { key: "side", class: "side" }, section(text("message.facts"), "card", messageFacts(message)),
          section(text("message.content"), "card", content(message, ctx)))),
    ];
  }

  function buttons(data, ctx) {
    const { message } = data,
      bad = ["failed", "expired", "unknown"].reduce((all, state) => all + (message.counts?.[state] ?? 0), 0);
    const open = onItsWay.reduce((all, state) => all + (message.counts?.[state] ?? 0), 0),
      isRunning = message.audience && !message.ended_at;
    return [
      bad > 0 && actionButton({ name: "resend", label: text("messages.resend"),
          run: () => resendDialog({ filter: { id: [message.id] } }) }),
      (open > 0 || isRunning) &&
        actionButton({ name: "cancel", label: text("messages.cancel"),
          run: () => cancelDialog(message.id, title(data), { isCampaign: Boolean(message.audience) }) }),
      menu(text("base.actions"),
        el("button", { type: "button", onclick: () => copy(JSON.stringify(message, null, 2)) },
          text("message.copy_json")),
        el("button", { type: "button",
            onclick: () => copy(
              `curl -H "Authorization: Bearer $CHAPAR_KEY" ${location.origin}/v1/notifications/${message.id}`) },
          text("message.copy_curl")),
        message.trace_id && el("button", { type: "button", onclick: () => copy(message.trace_id) },
          text("message.copy_trace"))),
    ];
  }
  async function copy(value) {
    await navigator.clipboard.writeText(value);
    toast(text("base.copied"));
  }

  function messageFacts(message) {
    const options = message.notification?.options ?? {};
    return facts([
      [text("message.accepted"), when(message.created_at)], [text("message.by"), code(message.caller)],
      [text("message.send_at"), message.send_at && when(message.send_at)],
      [text("message.expires"), when(message.expires_at)], [text("message.route"), code(message.notification?.route)],
      [text("message.priority"), code(options.priority)],
      [text("message.collapse"), code(options.collapse_id)],
      [text("message.reference"), message.reference && code(message.reference)],
      [text("message.resend_of"),
        message.resend_of &&
        el("a", { href: href("/messages/" + message.resend_of.notification) }, code(message.resend_of.notification))],
      [text("message.trace"), message.trace_id && short(message.trace_id)],
      [text("message.count"), number(message.recipients)],
    ]);
  }
  function content(message, ctx) {
    const received = message.notification;
    if (!received?.content && !received)
      return el("p", "soft", pieces("message.hidden", { scope: code("read_content") }));
    ctx.state.content ??= {};
    return contentTabs({ content: received.content ?? {}, whole: received, state: ctx.state.content,
        redraw: ctx.redraw });
  }

  // Recipients

  function stateFilter(data) {
    const { message, state } = data, all = Object.entries(message.counts ?? {}).filter(([, count]) => count > 0);
    const address = one => href("/messages/" + message.id, { state: one });
    return el("p", { class: "chips", role: "group", "aria-label": text("messages.states") },
      el("a", { key: "all", href: address(null), "aria-current": state ? null : "true" }, text("messages.chip_all"),
        el("span", null, number(message.recipients))),
      all.map(([one, count]) => el("a",
          { key: one, href: address(one), "data-filter": one, "data-count": count,
            "aria-current": one === state ? "true" : null }, icon(one), stateWord(one),
          el("span", null, number(count)))));
  }
  function recipients(data, ctx) {
    if (!data.deliveries.length) return emptyState(text(data.state ? "messages.no_match" : "message.no_recipients"));
    ctx.state.open ??= new Set(data.deliveries.length === 1 ? [data.deliveries[0].delivery]
      : data.deliveries.filter(one => tones[one.state] === "bad").slice(0, 3).map(one => one.delivery));
    if (data.deliveries.length === 1) ctx.state.open.add(data.deliveries[0].delivery);
    return el("ul", "card plain-list", data.deliveries.map(one => recipient(one, data, ctx)));
  }
  function recipient(one, data, ctx) {
    const { open } = ctx.state, isOpen = open.has(one.delivery), last = one.attempts?.at(-1),
      isBad = tones[one.state] === "bad" || one.state === "unknown";
    const toggle = event => {
      if (event.target.open && open.size < mostOpen) open.add(one.delivery); else open.delete(one.delivery);
      ctx.redraw();
    };
    return el("li", { key: one.delivery, "data-row": one.delivery, "data-state": one.state },
      el("details", { open: isOpen, ontoggle: toggle },
      el("summary", { "data-open": true },
        el("span", "row-line summary", chip(one.state), isBad && last?.reason && code(last.reason),
          el("span", null, recipientOf(one.recipient)), el("span", "soft", code(one.backend)),
        last?.at && el("span", "soft", when(last.at)))),
      isOpen && [timeline(one, data.message.created_at), isBad && explanation(one.explanation, last?.detail),
        recipientLinks(one, data, isBad, ctx)]));
  }
  function recipientLinks(one, data, isBad, ctx) {
    const app = { app: data.message.notification?.app };
    const device = /^device:(.*)$/s.exec(one.recipient)?.[1], user = /^user:(.*)$/s.exec(one.recipient)?.[1];
    return el("p", "buttons",
      device && hasScope(["devices", "read_all"]) &&
      el("a", { class: "button", href: href("/devices/" + part(device), app) }, text("message.open_device")),
      user && hasScope(["devices", "read_all"]) &&
        el("a", { class: "button", href: href("/users/" + part(user), app) }, text("message.open_user")),
      isBad && data.message.recipients > 1 &&
        actionButton({ name: "resend", id: one.delivery, label: text("messages.resend"),
          run: () => resendDialog({ deliveries: [{ notification: data.message.id, delivery: one.delivery }] }) }));
  }
  function pages(data) {
    const { id } = data.message;
    return el("p", "buttons",
      data.cursor && el("a", { class: "button", href: href("/messages/" + id, { state: data.state }) },
        text("message.first")),
      data.next && el("a",
        { class: "button", "data-older": true,
          href: href("/messages/" + id, { state: data.state, cursor: data.next }) }, text("message.next")));
  }

  // Campaigns

  function campaign(message, ctx) {
    const progress = message.audience, skipped = Object.entries(progress.skipped ?? {}),
      left = skipped.reduce((all, [, count]) => all + count, 0);
    const name = progress.name ?? message.id, toggle = isPaused => () => pauseCampaign(message.id, name, isPaused);
    const pace = progress.pace?.per_minute;
    return section(text("message.campaign"), { class: "card", "data-part": "campaign" },
      el("div", "row-line", progressBar(progress.progress, text("now.progress")),
        el("b", null, percent(progress.progress)),
        pace != null && el("span", null, text("message.pace_is", { count: pace })),
        progress.paused && mark("wait", "pause", text("now.state_paused")),
        progress.pause_reason && code(progress.pause_reason),
        !message.ended_at &&
          el("span", "buttons",
          actionButton({ name: "pace", label: text("message.pace"),
              run: () => paceDialog(message.id, name, progress.pace) }),
          progress.paused ? actionButton({ name: "resume_campaign", action: "pause_campaign",
              label: text("message.resume"), run: toggle(false) }) : actionButton({ name: "pause_campaign",
              label: text("message.pause"), run: toggle(true) }))),
      el("p", { "data-sum": progress.matched },
        text("message.sum", { matched: number(progress.matched), enqueued: number(progress.enqueued),
            left: number(left) }),
        skipped.length > 0 &&
          [" ", skipped.map(([why, count]) => el("span", { key: why, class: "soft" }, " ", code(why), " ",
              number(count)))]));
  }
  async function onLive(news, ctx) {
    const data = current.data;
    if (!news.lanes || !data?.message || current.isLoading || openDialogs.length ||
      Date.now() - refreshedAt < refreshSeconds * 1000) return;
    const { message } = data,
      isOpen = onItsWay.some(state => message.counts?.[state]) || message.audience && !message.ended_at ||
      message.counts?.accepted_by_platform;
    const total = JSON.stringify(news.lanes.totals);
    if (!isOpen || total === ctx.state.totals) return;
    ctx.state.totals = total;
    refreshedAt = Date.now();
    const fresh = await load(current.params, current.controller.signal).catch(() => null);
    if (!fresh || current.data !== data) return;
    Object.assign(data, fresh);
    requestLiveDraw();
  }
  addView({ path: "/messages/:id", title, needs: ["read"], load, draw, live: onLive });
}
