// Send: a form with a preview; a dry run says whom it reaches before anything goes out.
{
  const kinds = ["user", "device", "segment", "tag", "token", "everyone"], ofAudience = ["segment", "tag", "everyone"];
  const blank = { kind: "user", to: "", service: "", title: "", body: "", ttl: "3600", priority: "high", click_url: "",
    image: "", collapse_id: "", data: "", backend: "", app: "" };

  async function load(params, signal) {
    const [state, segments, tags] = await Promise.all([api.maybe("/v1/backends", null, signal),
        hasScope(["devices"]) ? api.maybe("/v1/segments", { limit: 200 }, signal) : null,
      hasScope(["devices"]) ? api.maybe("/v1/tags", { limit: 200 }, signal) : null]);
    const backends = state?.backends ?? [];
    return { backends, segments: (segments?.items ?? []).map(one => one.name),
      tags: (tags?.items ?? []).map(one => one.tag),
      services: [...new Set(backends.flatMap(one => one.audience.services))],
      start: { ...recipientOfAddress(params.to), app: params.app ?? "" } };
  }
  /** `to=user:ali` of the address. */
  function recipientOfAddress(to) {
    const found = /^(\w+):(.*)$/s.exec(to ?? "");
    const kind = found && kinds.includes(found[1]) ? found[1] : blank.kind,
      name = found && kind === found[1] ? found[2] : to ?? "";
    return { kind, to: ["user", "device"].includes(kind) && /[,"]/.test(name) ? `"${name.replace(/["\\]/g, "\\$&")}"`
      : name };
  }

  function draw(data, ctx) {
    const form = ctx.state.form ??= { ...blank, service: data.services[0] ?? "", ...data.start };
    const change = more => { Object.assign(form, more); ctx.state.checked = null; ctx.state.errors = null;
      ctx.redraw(); };
    return [
      heading(text("base.nav_send")),
      el("div", { class: "columns", key: "columns" },
        el("form", { class: "card form", "data-form": "send", "aria-label": text("base.nav_send"),
            onsubmit: event => { event.preventDefault(); perform("check ", () => check(form, ctx)); } },
          recipientFields(form, data, change, ctx), contentFields(form, change, ctx),
          moreFields(form, data, change, ctx),
          ctx.state.refusal &&
            el("p", { class: "bad", role: "alert", key: "refusal" }, refusalWords(ctx.state.refusal)),
          el("p", "buttons", actionButton({ name: "check", action: "send", label: text("send.check"),
                kind: ctx.state.checked ? "" : "main", run: () => check(form, ctx) }), sendButton(form, ctx)),
          ctx.state.checked && outcome(ctx.state.checked)),
        section(text("send.preview"), "card", preview(form, ctx))),
    ];
  }

  function input(form, name, change, ctx, more) {
    return field({ name: "send-" + name, label: text("send." + name), value: form[name], error: errorAt(ctx, name),
        dir: "auto", oninput: event => change({ [name]: event.target.value }), ...more });
  }
  const places = { title: "/content/title", body: "/content/body", image: "/content/image",
    click_url: "/content/click_url", data: "/content/data", to: "/to", ttl: "/options/ttl",
    collapse_id: "/options/collapse_id", backend: "/backend", app: "/app" };
  const errorAt = (ctx, name) => (ctx.state.errors ?? []).find(one => places[name] &&
    one.pointer.slice(1).startsWith(places[name]))?.detail;

  function recipientFields(form, data, change, ctx) {
    const known = { segment: data.segments, tag: data.tags }[form.kind] ?? [], listID = fieldID("send-to") + "l";
    return [choice({ name: "send-kind", label: text("send.to"), value: form.kind,
          options: kinds.filter(one => one !== "everyone" ||
            can("broadcast")).map(one => [one, text("send.kind_" + one)]),
          onchange: event => change({ kind: event.target.value, to: "" }) }),
      form.kind !== "everyone" &&
        input(form, "to", change, ctx,
        { label: text("send.name_" + form.kind), required: true, autocomplete: "off", dir: "ltr",
          list: known.length ? listID : null }),
      known.length > 0 && el("datalist", { id: listID, key: "known" },
        known.map(one => el("option", { value: one, key: one }))),
      form.kind === "token" &&
        choice({ name: "send-service", label: text("send.service"), value: form.service,
          options: data.services.map(one => [one, one]), onchange: event => change({ service: event.target.value }) })];
  }
  function contentFields(form, change, ctx) {
    return [input(form, "title", change, ctx), input(form, "body", change, ctx, { tag: "textarea" })];
  }
  function moreFields(form, data, change, ctx) {
    return el("details", { key: "more", "data-more": true }, el("summary", null, text("send.more")),
      input(form, "click_url", change, ctx, { dir: "ltr", type: "url" }),
      input(form, "image", change, ctx, { dir: "ltr", type: "url" }),
      choice({ name: "send-ttl", label: text("send.ttl"), value: form.ttl, error: errorAt(ctx, "ttl"),
          options: [600, 3600, 86400, 604800].map(one => [String(one), duration(one)]),
          onchange: event => change({ ttl: event.target.value }) }),
      choice({ name: "send-priority", label: text("message.priority"), value: form.priority,
          options: ["high", "normal"].map(one => [one, text("send.priority_" + one)]),
          onchange: event => change({ priority: event.target.value }) }),
      input(form, "collapse_id", change, ctx, { dir: "ltr" }),
      input(form, "data", change, ctx,
        { tag: "textarea", dir: "ltr", help: text("send.data_help"),
          error: isObject(form.data) ? errorAt(ctx, "data") : text("send.data_wrong") }),
      choice({ name: "send-backend", label: text("send.backend"), value: form.backend,
          options: [["", text("send.by_route")], ...data.backends.map(one => [one.name, one.name])],
          onchange: event => change({ backend: event.target.value }) }),
      input(form, "app", change, ctx, { label: text("device.app"), dir: "ltr" }));
  }
  function isObject(value) {
    if (!value.trim()) return true;
    try { const read = JSON.parse(value); return typeof read === "object" && read !== null && !Array.isArray(read);
      } catch { return false; }
  }

  // What is sent

  function recipients(form) {
    const to = form.to.trim();
    switch (form.kind) {
      case "user": return { users: namesIn(to) };
      case "device": return { devices: namesIn(to) };
      case "token": return { tokens: [{ token: to, service: form.service }] };
      case "segment": return { segment: to };
      case "tag": return { audience: { tag: to } };
      default: return { everyone: true };
    }
  }
  const contentOf = form =>
    Object.fromEntries(["title", "body", "image",
      "click_url"].filter(name => form[name]).map(name => [name, form[name]]).concat(form.data.trim() &&
      isObject(form.data) ? [["data", JSON.parse(form.data)]] : []));
  function notification(form, more) {
    const options = { ttl: Number(form.ttl), priority: form.priority,
      ...(form.collapse_id ? { collapse_id: form.collapse_id } : {}), ...more };
    return { to: recipients(form), content: contentOf(form), options,
      ...(form.backend ? { backend: form.backend } : {}), ...(form.app ? { app: form.app } : {}) };
  }

  async function check(form, ctx) {
    Object.assign(ctx.state, { checked: null, errors: null, refusal: null });
    if (!isObject(form.data)) return;
    try {
      const answer = await api.post("/v1/notifications", notification(form, { dry_run: true }));
      ctx.state.checked = { ...answer, count: answer.recipients.count ?? 0 };
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      [ctx.state.errors, ctx.state.refusal] = [error.errors, error];
    }
    ctx.redraw();
  }
  function sendButton(form, ctx) {
    const { checked } = ctx.state;
    if (!checked || !checked.count) return null;
    return actionButton({ name: "send", label: text("send.send_to", { count: checked.count }), kind: "main",
        run: () => send(form, checked, ctx) });
  }
  async function send(form, checked, ctx) {
    const done = await confirmAction({ name: "send", title: text("base.nav_send"), mustType: false,
      // The number is counted again: the audience may have changed since the check.
      preview: async () => {
        const answer = await api.post("/v1/notifications", notification(form, { dry_run: true })),
          count = answer.recipients.count ?? 0;
        return { count, lines: [text("send.to_whom",
              { count, whom: form.kind === "everyone" ? text("send.kind_everyone") : form.kind + ":" + form.to }),
            el("b", { dir: "auto" }, form.title || form.body)], verb: text("send.verb", { count }) };
      },
      run: (values, key) => api.post("/v1/notifications", notification(form), { idempotency: key }) });
    if (!done) return;
    ctx.state.form = null;
    ctx.state.checked = null;
    toast(text("send.done"));
    go("/messages/" + done.id);
  }

  /** Whom it would reach, by platform, with samples and warnings. */
  function outcome(checked) {
    const { recipients: found, samples = [], warnings = [] } = checked, skipped = Object.entries(found.skipped ?? {});
    return el("div", { class: "advice", key: "outcome", role: "status", "data-outcome": checked.count },
      el("p", null, el("b", null, text("send.reaches", { count: checked.count })),
        found.kind === "estimate" && [" ± ", number(found.plus_minus ?? 0)],
        skipped.length > 0 &&
          [" ", text("send.skipped"),
          skipped.map(([why, count]) => el("span", { key: why }, " ", code(why), " ", number(count)))]),
      samples.length > 0 &&
        el("details", null, el("summary", null, text("send.samples", { count: samples.length })),
        el("ul", null, samples.map(one => el("li", { key: one.device }, code(one.device), " ", one.platform, " ",
        one.payloads.map(payload => el("div", { key: payload.backend }, code(payload.backend), " ",
            payload.bytes != null &&
            text("preview.bytes",
              { bytes: number(payload.bytes), limit: payload.limit == null ? "–" : number(payload.limit) }),
          payload.body && el("pre", { dir: "ltr" }, JSON.stringify(payload.body, null, 2)),
          payload.warnings.map(warning)))))) ),
      warnings.length > 0 &&
        el("div", { key: "warnings" }, el("p", "wait", text("send.warnings", { count: warnings.length })),
        warnings.map(warning)));
  }
  const warning = one => el("p", { class: "note wait", key: one.pointer + one.code }, icon("warning"), " ",
    code(one.pointer), " ", words(one.detail));

  function preview(form, ctx) {
    ctx.state.preview ??= {};
    const payloads = ctx.state.checked?.samples?.[0]?.payloads;
    return contentTabs({ content: contentOf(form), whole: notification(form), state: ctx.state.preview,
        redraw: ctx.redraw, payloads });
  }
  addView({ path: "/send", title: "base.nav_send", needs: ["send"], load, draw });
}
