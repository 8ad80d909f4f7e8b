// Audiences: the campaigns that run, with their progress and pace, and the segments with their counts.

addView({
  path: "/audiences",
  title: "audiences.title",
  needs: ["read"],
  async load(params, signal) {
    const [campaigns, segments] = await Promise.all([
      api.get("/v1/campaigns", { limit: 20 }, signal),
      api.maybe("/v1/segments", { limit: 100, app: params.app, cursor: params.cursor }, signal)]);
    setBadge("/audiences", campaigns.items.filter(one => one.audience.phase === "running").length);
    return { campaigns: campaigns.items, segments };
  },
  live(news, ctx) {
    const isTold = /^(campaign|notification)\./.test(news.note?.type ?? "");
    const isRunning = current.data?.campaigns.some(one => one.audience.phase === "running" && !one.audience.paused);
    if (isTold && isReloadDue(1) || news.lanes && isRunning && isReloadDue(campaignSeconds)) ctx.reload();
  },
  draw(data, ctx) {
    const running = data.campaigns.filter(one => one.audience.phase === "running"),
      over = data.campaigns.filter(one => one.audience.phase !== "running");
    return [
      heading(text("audiences.title"),
        can("broadcast") && can("send") &&
        el("a", { class: "button", href: "#/send" }, text("audiences.new_campaign"))),
      section(text("audiences.running"), { key: "running" },
        running.length === 0 ? el("p", "soft", text("audiences.none_running")) : running.map(campaignCard)),
      data.segments && segmentsSection(data.segments, ctx),
      over.length > 0 && section(text("audiences.over"), { key: "over" }, campaignsTable(over)),
    ];
  },
});

/** The progress of running campaigns is read again after so many seconds. */
const campaignSeconds = 5;

const campaignName = one => one.audience.name ?? one.id;
function campaignCard(one) {
  const { audience } = one, name = campaignName(one), skipped = Object.entries(audience.skipped ?? {});
  const left = audience.pace?.per_minute && audience.progress > 0.01
    ? audience.matched / audience.progress * (1 - audience.progress) / audience.pace.per_minute * 60 : null;
  const skippedSum = skipped.reduce((sum, [, count]) => sum + count, 0);
  return el("article",
    { class: "card campaign", key: one.id, "data-row": one.id, "data-state": audience.paused ? "paused" : "running" },
    el("h3", null, el("a", { href: href("/messages/" + part(one.id)), "data-open": true },
        audience.name ? words(audience.name) : code(one.id)), " ",
      audience.paused && mark("wait", "pause",
        hasText("audiences.pause_" + audience.pause_reason) ? text("audiences.pause_" + audience.pause_reason)
        : text("audiences.is_paused"))),
    el("p", "progress", progressBar(audience.progress, text("audiences.progress_of", { name })), " ",
      el("b", null, percent(audience.progress))),
    el("p", null, text("audiences.sum", { matched: audience.matched, reached: audience.reached, skipped: skippedSum }),
      " ",
      el("span", "soft", audience.pace?.per_minute ? text("audiences.at_pace", { count: audience.pace.per_minute })
        : text("audiences.at_full_pace"),
        left != null && left > 1 && [" · ", text("audiences.left", { time: duration(left) })])),
    skipped.length > 0 &&
      el("p", "note", listOf(
        skipped.map(([cause, count]) => hasText("audiences.skipped_" + cause)
          ? text("audiences.skipped_" + cause, { count }) : cause))),
    el("p", "buttons", campaignButtons(one)));
}
function campaignButtons(one) {
  const name = campaignName(one), isPaused = one.audience.paused;
  return [
    actionButton({ name: isPaused ? "resume" : "pause", id: one.id, action: "pause_campaign", kind: "main",
        label: text(isPaused ? "audiences.resume" : "audiences.pause"),
        run: () => pauseCampaign(one.id, name, !isPaused) }),
    actionButton({ name: "pace", id: one.id, label: text("audiences.pace"),
        run: () => paceDialog(one.id, name, one.audience.pace) }),
    actionButton({ name: "cancel", id: one.id, label: text("audiences.cancel"),
        run: () => cancelDialog(one.id, name, { isCampaign: true }) })];
}
function campaignsTable(items) {
  const columns = [{ name: "name", label: text("audiences.name"), kind: "main" },
    { name: "phase", label: text("backends.state") },
    { name: "reached", label: text("audiences.reached"), kind: "number" },
    { name: "by", label: text("audiences.by") }, { name: "at", label: text("audiences.ended"), kind: "end" }];
  const shapes = { finished: ["good", "accepted_by_platform"], cancelled: ["soft", "cancelled"],
    expired: ["bad", "expired"] };
  return table({ name: "campaigns", label: text("audiences.over"), columns,
      rows: items.map(one => ({ key: one.id, name: campaignName(one), state: one.audience.phase, cells: [
    rowLink(href("/messages/" + part(one.id)), one.audience.name ? words(one.audience.name) : code(one.id)),
    mark(...shapes[one.audience.phase] ?? ["soft", "dot"], text("audiences.phase_" + one.audience.phase)),
    number(one.audience.reached), one.caller && code(one.caller), when(one.ended_at ?? one.created_at)] })) });
}

// Segments

function segmentsSection(page, ctx) {
  const counts = ctx.state.counts ??= new Map();
  const columns = [{ name: "name", label: text("audiences.name"), kind: "main" },
    { name: "rule", label: text("audiences.rule"), kind: "wide" },
    { name: "count", label: text("audiences.devices"), kind: "number" },
    { name: "actions", label: text("base.actions"), kind: "end" }];
  const rows = page.items.map(one => ({ key: one.name, name: one.name, state: one.kind, cells: [
    rowLink(href("/audiences/segments/" + part(one.name), { app: ctx.params.app }), code(one.name)),
    one.rule ? el("span", "soft", ruleText(one.rule)) : text("audiences.kind_" + one.kind),
    counts.has(one.name) ? countWords(counts.get(one.name)) : "–",
    el("div", "buttons",
      actionButton({ name: "count", id: one.name, action: "edit_segment", label: text("audiences.count"),
          run: () => countSegment(one.name, "exact", counts, ctx) }),
      can("broadcast") && can("send") &&
        el("a", { class: "button", href: href("/send", { to: "segment:" + one.name, app: ctx.params.app }),
          "data-action": "send-to" }, text("audiences.send_to")))] }));
  return section(text("audiences.segments"), { key: "segments", ref: () => estimateSegments(page.items, counts, ctx) },
    el("p", "buttons", can("edit_segment") &&
      el("a", { class: "button", href: "#/audiences/new", "data-action": "new-segment" },
        text("audiences.new_segment"))),
    rows.length === 0 ? emptyState(text("audiences.no_segments"), command("chapar segments put readers --tag weekly"))
      : table({ name: "segments", label: text("audiences.segments"), columns, rows }),
    page.next && el("p", null,
      el("a", { class: "button", href: href("/audiences", { ...ctx.params, cursor: page.next }) },
        text("backends.older"))));
}
/** An estimate for each segment on the page, one after the other: it evaluates a hundred samples and costs little. */
const mostEstimates = 20;
async function estimateSegments(items, counts, ctx) {
  for (const one of items.slice(0, mostEstimates)) {
    if (counts.has(one.name)) continue;
    try { await countSegment(one.name, "estimate", counts, ctx); } catch { return; }
  }
}
async function countSegment(name, mode, counts, ctx) {
  const found = await api.get(`/v1/segments/${part(name)}/count`, { mode, app: ctx.params.app },
    current.controller?.signal);
  counts.set(name, { ...found, at: new Date(now()).toISOString() });
  ctx.redraw();
}
/** A count, and how certain it is. */
function countWords(found) {
  const shown = { exact: "audiences.exactly", at_least: "audiences.at_least",
    estimate: "audiences.about" }[found.kind] ?? "audiences.exactly";
  return el("span", { title: found.at && exact(found.at), "data-count": found.count },
    text(shown, { count: found.count, margin: number(found.plus_minus ?? 0) }));
}
