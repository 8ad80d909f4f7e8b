// Now: what needs a hand, first; then how much goes through. `chapar top` shows the same blocks in the same order.
{
  const ranges = ["1h", "24h", "7d"], soonDays = 30, shownNotes = 8;
  let refreshedAt = 0;

  async function load(params, signal) {
    const range = ranges.includes(params.range) ? params.range : "1h";
    refreshedAt = Date.now();
    const [state, series, campaigns] = await Promise.all([
      api.get("/v1/backends", null, signal), api.maybe("/v1/series", { range }, signal),
      api.maybe("/v1/campaigns", { limit: 10 }, signal),
    ]);
    const data = { range, series, backends: state.backends, campaigns: (campaigns?.items ?? []).filter(isRunning),
      totals: live.lanes?.totals ?? null,
      dead: null, webhooks: [], notes: live.notes.slice(0, shownNotes) };
    loadMore(data, signal);
    return data;
  }
  /** What is drawn when it comes: the first picture does not wait for it. */
  async function loadMore(data, signal) {
    const since = toTime("1d");
    const [dead, webhooks] = await Promise.all([
      api.maybe("/v1/deliveries/counts", { by: "reason,backend", since }, signal),
      hasScope(["webhooks"]) ? api.maybe("/v1/webhooks", null, signal) : null,
    ]).catch(() => [null, null]);
    if (signal.aborted) return;
    data.dead = dead;
    data.webhooks = webhooks?.webhooks ?? [];
    setBadge("/dead", dead?.total ?? 0);
    setBadge("/webhooks", data.webhooks.filter(isFailing).length);
    requestDraw();
  }
  const isRunning = one => !one.ended_at && one.audience &&
    !["done", "cancelled", "ended"].includes(one.audience.phase);
  const isFailing = hook => hook.failing_since != null || hook.status === "failing" || hook.status === "disabled";

  /** The newest state of the backends: of the stream, else of the answer. */
  const backendsOf = data => live.lanes?.backends ?? data.backends;

  function draw(data, ctx) {
    const backends = backendsOf(data);
    return [
      heading(text("base.nav_now")),
      section(text("now.needs_a_hand"), { "data-part": "needs" }, needs(data, backends)),
      section(text("now.traffic"), { "data-part": "traffic" }, rangeChips(data), tiles(data, backends),
        charts(data, ctx)),
      section(text("base.nav_backends"), { "data-part": "backends" }, backendList(backends)),
      data.campaigns.length > 0 &&
        section(text("now.campaigns"), { "data-part": "campaigns" },
        el("ul", "card plain-list", data.campaigns.map(campaignItem))),
      section(text("now.events"), { "data-part": "events" }, notes(data, ctx)),
    ];
  }

  // What needs a hand

  function needs(data, backends) {
    const items = [...backends.flatMap(backendNeeds), ...credentialNeeds(backends), ...keyNeeds(data, backends),
      ...otherNeeds(data)];
    if (!items.length) {
      const oldest = Math.max(0, ...backends.map(one => workerOf(one).oldest_age ?? 0));
      return emptyState([mark("good", "accepted_by_platform", text("now.nothing")), " ",
          text("now.oldest", { age: duration(oldest) })]);
    }
    return el("ul", "card plain-list", items);
  }
  function need(key, tone, shape, sentence, buttons, more) {
    return el("li", { key, "data-need": key },
      el("div", "row-line", el("span", null, icon(shape, tone), " ", sentence), el("span", "buttons", buttons)), more);
  }
  const link = (path, label, params) => el("a", { class: "button", href: href(path, params) }, label);

  const waitingWords = worker => worker.oldest_age == null ? text("now.waiting_only", { count: worker.waiting })
    : text("now.waiting", { count: worker.waiting, age: duration(worker.oldest_age) });
  function backendNeeds(backend) {
    const worker = workerOf(backend), name = code(backend.name), path = "/backends/" + part(backend.name),
      key = "backend " + backend.name;
    const waiting = waitingWords(worker);
    const sentence = (id, values) => [pieces("now." + id, { backend: name, ...values }), " ",
      worker.waiting > 0 && el("span", "soft", waiting)];
    const open = link(path, text("now.open"));
    if (backend.gone) return [need(key, "bad", "failed", sentence("gone"), open)];
    if (worker.invalidations_quarantined || worker.invalidations_held) {
      return [need(key, "bad", "pause", sentence("quarantined"),
          link("/quarantine/" + part(backend.name), text("now.decide")))];
    }
    if (worker.parked)
      return [need(key, "bad", "failed",
        sentence("parked", { reason: code(worker.pause_reason ?? backend.health.detail ?? "–") }),
        [open, retryButton(backend)])];
    if (worker.breaker !== "closed") {
      const reason = code(worker.breaker_reason ?? backend.health.detail ?? "–");
      return [need(key, worker.breaker === "open" ? "bad" : "wait", "warning",
          sentence("breaker_" + worker.breaker,
            { reason, time: worker.breaker_until ? when(worker.breaker_until) : "–" }), [open, retryButton(backend)])];
    }
    if (isTime(worker.paused_until) && Date.parse(worker.paused_until) > now()) {
      return [need(key, "wait", "pause",
          sentence("paused", { time: when(worker.paused_until), reason: code(worker.pause_reason ?? "–") }), open)];
    }
    if (backend.health.status !== "ok" && backend.health.detail && !endsSoon(backend)) {
      return [need(key, backend.health.status === "down" ? "bad" : "wait", "warning",
          sentence("health", { detail: words(backend.health.detail) }), open)];
    }
    return [];
  }
  const endsSoon = backend => Object.values(backend.health.credential_expiries ??
    {}).some(end => Date.parse(end) - now() < soonDays * 86400000);
  function credentialNeeds(backends) {
    const own = Object.entries(live.lanes?.credential_expiries ?? {}).map(([name, end]) => [null, name, end]);
    const all = own.concat(
      backends.flatMap(one => Object.entries(one.health.credential_expiries ??
          {}).map(([name, end]) => [one.name, name, end])));
    return all.filter(([, , end]) => Date.parse(end) - now() < soonDays * 86400000).map(([owner, name, end]) => {
      const isOver = Date.parse(end) <= now();
      const sentence = pieces(isOver ? "now.credential_ended" : "now.credential",
        { owner: owner ? code(owner) : text("now.gateway"), credential: credentialName(name), when: inDays(end),
          date: date(end) });
      return need("credential " + owner + name, isOver ? "bad" : "wait", "warning", sentence, null,
        howToRenew(name, owner));
    });
  }
  function credentialName(name) {
    const [kind, ...rest] = name.split(".");
    return hasText("now.credential_" + kind) ? pieces("now.credential_" + kind, { name: code(rest.join(".")) })
      : code(name);
  }
  function howToRenew(name, owner) {
    return el("details", null, el("summary", { "data-action": "how" }, text("now.how")),
      el("p", null, text("now.renew")),
      command(name.startsWith("api_key") ? "chapar keys create --name NAME --scope read --key-file key"
        : "chapar doctor --config chapar.yaml"),
      owner && el("p", null, link("/backends/" + part(owner), text("now.open"))));
  }
  function keyNeeds(data, backends) {
    const items = [];
    if (session.own && session.own.name === "" && !session.key)
      items.push(need("no key", "wait", "warning", text("now.no_key"), null,
        command("chapar keys create --name shop --scope send")));
    if (!backends.length)
      items.push(need("no backend", "wait", "warning", text("now.no_backend"), null, command("chapar init")));
    else if (live.lanes && !live.lanes.totals.accepted && !data.series?.series.accepted.some(Boolean))
      items.push(need("first", "soft", "sending", text("now.first"),
        can("send") && link("/send", text("base.nav_send")),
        command(`chapar send --url ${location.origin} ${sampleRecipient(backends)} Hello`)));
    return items;
  }
  function sampleRecipient(backends) {
    const service = backends.flatMap(one => one.audience.services)[0];
    return service ? `--to ${service}:TOKEN` : `--backend ${backends[0].name} --user USER`;
  }
  function otherNeeds(data) {
    const items = data.webhooks.filter(isFailing).map(hook => need("webhook " + hook.name, "bad", "failed",
        pieces("now.webhook", { name: code(hook.name) }), link("/webhooks/" + part(hook.name), text("now.open"))));
    if (data.dead?.total > 0)
      items.push(need("dead", "bad", "failed", text("now.dead", { count: data.dead.total }),
        link("/dead", text("now.open"))));
    for (const node of live.lanes?.nodes ?? []) if (node.lost || node.alive === false)
      items.push(need("node " + node.name, "bad", "warning", pieces("now.node", { name: code(node.name) })));
    for (const one of data.campaigns) if (one.audience.paused)
      items.push(need("campaign " + one.id, "wait", "pause", pieces("now.campaign_paused", { name: campaignName(one) }),
        link("/messages/" + one.id, text("now.open"))));
    return items;
  }

  // How much goes through

  function rangeChips(data) {
    return el("p", { class: "chips", role: "group", "aria-label": text("now.range") }, ranges.map(range =>
      el("a", { key: range, href: href("/", { range }), "aria-current": range === data.range ? "true" : null },
        text("now.range_" + range))));
  }
  /**
   * Sums of the range, with what is not stored yet and what came since it was read; without kept counts those since the
   * gateway's start.
   */
  function tiles(data, backends) {
    const totals = live.lanes?.totals,
      sum = name => (data.series?.series[name] ?? []).reduce((all, one) => all + (one ?? 0),
      data.series?.running?.[name] ?? 0);
    const grown = names => names.reduce((all, name) => all +
      (totals && data.totals ? Math.max(0, (totals[name] ?? 0) - (data.totals[name] ?? 0)) : 0), 0);
    const value = (kept, names) => data.series ? sum(kept) + grown(names) : totals
      ? names.reduce((all, name) => all + (totals[name] ?? 0), 0) : null;
    const onWay = backends.reduce((all, one) => all + workerOf(one).waiting + workerOf(one).in_flight, 0);
    const list = [["accepted", value("accepted", ["accepted"]), ""], ["on_its_way", onWay, onItsWay.join(",")],
      ["handed_over", value("handed_over", ["accepted_by_platform"]), handedOver.join(",")],
      ["arrived", value("arrived", ["delivered"]), "delivered,opened"],
      ["failed", value("failed", ["failed"]), "failed"], ["unknown", value("unknown", ["unknown"]), "unknown"]];
    const since = { "1h": "1h", "24h": "1d", "7d": "7d" }[data.range];
    return [el("div", { class: "tiles", key: "tiles" },
        list.map(([name, count, state]) => el("a",
            { key: name, href: href("/messages", { state, since }), "data-tile": name,
              title: count == null ? null : number(count) },
      el("b", null, count == null ? "–" : compact(count)), text("now.tile_" + name)))),
    !data.series && el("p", { class: "note", key: "since" },
      live.lanes ? pieces("now.since_start", { time: when(live.lanes.started_at) }) : text("base.loading"))];
  }
  function charts(data, ctx) {
    const kept = data.series;
    if (!kept) return null;
    const line = (name, tone) => ({ name, label: text("now.series_" + name), values: kept.series[name], tone });
    const common = { from: kept.from, step: kept.step, gaps: kept.gaps, state: ctx.state, redraw: ctx.redraw };
    return el("div", { class: "charts", key: "charts" },
      chart({ ...common, name: "throughput", label: text("now.throughput"),
          series: [line("accepted"), line("handed_over", "good"), line("arrived", "soft")] }),
      chart({ ...common, name: "failures", label: text("now.failures"),
          series: [line("failed", "bad"), line("expired", "wait"), line("unknown", "unsure"),
            line("retried", "soft")] }),
      chart({ ...common, name: "age", label: text("now.age"), series: [line("oldest", "wait")], format: duration }));
  }

  function backendList(backends) {
    if (!backends.length) return emptyState(text("now.no_backend"));
    const order = one => isTrouble(one) ? 0 : 1;
    return el("ul", { class: "card plain-list grid" }, [...backends].sort((a, b) => order(a) - order(b)).map(one => {
      const worker = workerOf(one);
      return el("li", { key: one.name, "data-row": one.name },
        el("div", "row-line", el("a", { href: href("/backends/" + part(one.name)), "data-open": true }, code(one.name)),
          backendChip(backendState(one)),
        el("span", "soft", text("now.load", { in_flight: worker.in_flight, window: worker.window })),
        worker.waiting > 0 && el("span", null, waitingWords(worker))));
    }));
  }
  const campaignName = one => one.audience.name ? words(one.audience.name) : code(one.id);
  function campaignItem(one) {
    const toggle = isPaused => () => pauseCampaign(one.id, one.audience.name ?? one.id, isPaused);
    return el("li", { key: one.id, "data-row": one.id },
      el("div", "row-line", el("a", { href: href("/messages/" + one.id), "data-open": true }, campaignName(one)),
      progressBar(one.audience.progress, text("now.progress")), el("span", null, percent(one.audience.progress)),
      el("span", "soft", text("now.enqueued", { count: one.audience.enqueued })),
      el("span", "buttons",
        one.audience.paused
        ? actionButton({ name: "resume_campaign", action: "pause_campaign", id: one.id, label: text("message.resume"),
            run: toggle(false) })
        : actionButton({ name: "pause_campaign", id: one.id, label: text("message.pause"), run: toggle(true) }))));
  }

  // What happened

  function notes(data, ctx) {
    // The list fills while it is short; then it grows only when the person asks.
    if (data.notes.length < shownNotes) data.notes = live.notes.slice(0, shownNotes);
    const newest = data.notes[0], newer = newest ? Math.max(0, live.notes.indexOf(newest)) : 0;
    return [el("p", { class: "newer", key: "newer" },
        newer > 0 && el("button",
          { type: "button", onclick: () => { data.notes = live.notes.slice(0, shownNotes); ctx.redraw(); } },
          icon("newer"), " ", text("now.newer", { count: newer }))),
      data.notes.length ? el("ul", { class: "card plain-list", key: "notes" }, data.notes.map(noteItem))
        : emptyState(text("now.no_events"))];
  }
  function noteItem({ type, event, id }) {
    const sentence = pieces("notes." + type.replaceAll(".", "_"), { backend: code(event.backend ?? "–") });
    return el("li", { key: id ?? event.at + type },
      el("div", "row-line", el("span", "soft", when(event.at)), el("span", null, sentence),
      event.reason && code(event.reason),
      event.device && el("a", { href: href("/devices/" + part(event.device)) }, code(event.device)),
      event.detail && typeof event.detail === "string" && el("span", "soft", words(event.detail))));
  }

  /** The kept counts gain a step each minute. */
  function onLive(news) {
    if (news.lanes && current.data && !current.data.totals) current.data.totals = news.lanes.totals;
    if (news.lanes && Date.now() - refreshedAt > 60000 && !current.isLoading && !openDialogs.length) {
      refreshedAt = Date.now();
      reload();
    }
  }
  addView({ path: "/", title: "base.nav_now", needs: ["read"], load, draw, live: onLive });
}
