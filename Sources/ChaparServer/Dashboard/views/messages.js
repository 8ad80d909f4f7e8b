// Messages: what became of X. A page is a snapshot of at most 50; what is newer comes when the person asks for it.
{
  const pageSize = 50, refreshSeconds = 2, newerSeconds = 5, fewRecipients = 2, idPattern = /^[0-9A-Z]{13}$/;
  let refreshedAt = 0, newerAt = 0, totalsSeen = "", acceptedSeen = null;

  // Loading

  async function load(params, signal) {
    const { cursor, ...filter } = params;
    const unknown = unknownKeys(filter), code = missing(filter);
    const errors = unknown.length ? unknown.map(word => ({ code: "unknown_key", word })) : code ? [{ code }] : [];
    if (errors.length) return nothing(filter, errors);
    const counts = countsOf(filter, signal), request = toRequest(filter);
    let found;
    try {
      found = filter.q ? await findWord(filter, cursor, signal)
        : { ...await api.get("/v1/notifications", { ...request, cursor, limit: pageSize }, signal), matches: null };
    } catch (error) {
      // A value that the gateway does not take: it is told under the box, and the rows of another filter do not stay.
      if (!(error instanceof Refusal) || ![400, 422].includes(error.status)) throw error;
      return nothing(filter,
        (error.errors?.length ? error.errors
          : [error]).map(one =>
          ({ code: "refused", word: one.pointer?.replace(/^#\//, "") ?? "", detail: one.detail || one.title })));
    }
    const data = { filter, request, cursor, ...found, counts: null, newer: 0, details: new Map(),
      readAt: new Date(now()).toISOString() };
    counts.then(value => { data.counts = value; if (!signal.aborted) requestDraw(); });
    const details = addDetails(data, signal);
    await Promise.race([Promise.allSettled([counts, details]), new Promise(done => setTimeout(done, 400))]);
    return data;
  }
  /** What a filter that is not asked for finds. */
  const nothing = (filter, errors) =>
    ({ filter, items: [], next: null, errors, matches: null, counts: null, newer: 0 });
  /** A bare word is looked for as id, user, device and reference at once. */
  async function findWord(filter, cursor, signal) {
    const { q, ...rest } = filter, request = toRequest(rest);
    const ask = key => api.get("/v1/notifications", { ...request, [key]: q, limit: pageSize }, signal).catch(error => {
      // The word may be none for this key; what is wrong with the rest of the filter is told.
      const isOfWord = error instanceof Refusal && [400, 403, 404, 422].includes(error.status) &&
        error.errors.every(one => one.pointer === "#/" + key);
      if (!isOfWord) throw error;
      return null;
    });
    const answers = await Promise.all(wordKeys.map(key => key === "id" && !idPattern.test(q) ? null : ask(key)));
    const matches = wordKeys.filter((_, index) => answers[index]?.items.length), items = new Map();
    for (const answer of answers) for (const one of answer?.items ?? []) items.set(one.id, one);
    const sorted = [...items.values()].sort((a, b) => b.created_at.localeCompare(a.created_at));
    return { items: sorted.slice(0, pageSize), next: null, looked_back_to: null, matches };
  }
  /** The counts for the chips: those of the filter without its states; of the last day where it has no time. */
  async function countsOf(filter, signal) {
    const { state, q, ...rest } = filter;
    if (q) return null;
    const isBound = rest.since || wordKeys.some(key => rest[key]);
    return api.maybe("/v1/notifications/counts", toRequest(isBound ? rest : { ...rest, since: "1d" }),
      signal).catch(() => null);
  }
  /** Reason, recipient and backend of the messages with few recipients, by one more question. */
  async function addDetails(data, signal) {
    const ids = data.items.filter(one => one.recipients <= fewRecipients && !one.audience).map(one => one.id);
    if (!ids.length) return;
    const answer = await api.maybe("/v1/deliveries", { id: ids.join(","), limit: 100 }, signal).catch(() => null);
    for (const one of answer?.items ?? []) {
      const known = data.details.get(one.notification);
      if (!known || tones[one.state] === "bad") data.details.set(one.notification, one);
    }
    if (!signal.aborted) requestDraw();
  }

  // Drawing

  function draw(data, ctx) {
    const { filter } = data;
    ctx.state.filter ??= {};
    tellErrors(data, ctx.state);
    return [
      heading(text("base.nav_messages")),
      filterBar({ name: "messages", params: filter, state: ctx.state.filter, redraw: ctx.redraw,
          suggestions: suggestions(data),
        onSearch: params => { ctx.state.filter.errors = []; go("/messages", params); } }),
      stateChips(data),
      data.matches && el("p", { class: "note", key: "matches", "data-matches": data.matches.join(" ") },
        data.matches.length ? pieces("messages.matches", { keys: matchLinks(data) })
        : text("messages.matches_none")),
      newerBar(data, ctx),
      data.items.length ? list(data, ctx) : noMessages(data),
      footer(data),
      selectionBar(data, ctx),
    ];
  }
  /** What is wrong with the filter of the address, until another one is typed. */
  function tellErrors(data, state) {
    if (state.told === data) return;
    if (data.errors || state.told?.errors) state.filter.errors = data.errors ?? [];
    state.told = data;
  }
  const suggestions = data =>
    ({ backend: (live.lanes?.backends ?? []).map(one => one.name),
      app: [...new Set(data.items.map(one => one.notification?.app).filter(Boolean))],
    key: [...new Set(data.items.map(one => one.caller).filter(Boolean))] });

  function stateChips(data) {
    const { state, ...rest } = data.filter, counts = data.counts?.states;
    const groups = [["all", null], ["on_its_way", onItsWay], ["handed_over", handedOver], ["failed", ["failed"]],
      ["expired", ["expired"]], ["unknown", ["unknown"]], ["cancelled", ["cancelled"]]];
    const withTime = params => missing(params) ? { ...params, since: "1d" } : params;
    return el("p", { class: "chips", key: "chips", role: "group", "aria-label": text("messages.states") },
      groups.map(([name, members]) => {
      const count = !counts ? null : members ? members.reduce((all, one) => all + (counts[one] ?? 0), 0)
        : data.counts.notifications;
      const wanted = members?.join(",") ?? null;
      return el("a", { key: name, href: href("/messages", members ? withTime({ ...rest, state: wanted }) : rest),
          "data-filter": name, "data-count": count, "aria-current": (state ?? null) === wanted ? "true" : null },
        text("messages.chip_" + name), count != null && el("span", null, number(count)));
    }), data.counts && !data.filter.since && !wordKeys.some(key => data.filter[key]) &&
      el("span", { class: "note", key: "of" }, text("messages.of_a_day")));
  }

  /** The keys by which a bare word was found, each with its own search: that one has further pages. */
  function matchLinks({ filter: { q, ...rest }, matches }) {
    return matches.map((key, index) => [index > 0 && ", ",
      el("a", { key, href: href("/messages", { ...rest, [key]: q }), "data-match": key }, code(`${key}:${quoted(q)}`))]);
  }

  /** The place for what is newer is kept free, so that nothing below moves. */
  function newerBar(data, ctx) {
    return el("p", { class: "newer", key: "newer" },
      data.newer > 0 && el("button",
        { type: "button", "data-newer": data.newer,
          onclick: () => { ctx.state.selected?.clear(); reload(); scrollTo(0, 0); } },
      icon("newer"), " ", data.newer > pageSize ? text("messages.newer_many", { count: pageSize })
        : text("messages.newer", { count: data.newer })));
  }

  function list(data, ctx) {
    const columns = [{ name: "title", label: text("messages.message"), kind: "second" },
      { name: "state", label: text("messages.state"), kind: "first" },
      { name: "recipient", label: text("messages.recipient") },
      { name: "backend", label: text("messages.backend") }, { name: "at", label: text("messages.time"), kind: "end" }];
    const selection = (can("resend") || can("cancel")) &&
      selectionOf(ctx.state, () => data.items.map(one => one.id), ctx.redraw);
    return table({ name: "messages", label: text("base.nav_messages"), columns,
        rows: data.items.map(one => row(one, data)), selection: selection || null });
  }
  function row(one, data) {
    const detail = data.details.get(one.id), last = detail?.attempts?.at(-1);
    const title = titleOf(one), isStale = Boolean(data.filter.state) && !matches(one, data.filter);
    const reason = last?.reason && tones[detail.state] !== "good" ? code(last.reason) : null;
    return { key: one.id, name: title ?? one.id, state: one.status, class: isStale ? "stale" : "", cells: [
      rowLink(href("/messages/" + one.id),
        title ? words(title)
        : el("span", "soft", one.notification ? text("messages.untitled") : text("messages.hidden"))),
      [el("span", "chips", one.recipients === 1 && one.status ? chip(one.status) : countChips(one.counts), reason),
        isStale && el("span", { class: "note", key: "stale" }, " ", text("messages.no_longer"))],
      one.recipients > 1 ? text("messages.recipients", { count: one.recipients }) : detail
        ? recipientOf(detail.recipient) : "",
      detail ? code(detail.backend) : "", when(one.created_at)] };
  }
  const titleOf = one => one.audience?.name ?? textIn(one.notification?.content?.title, language) ??
    textIn(one.notification?.content?.body, language);
  const matches = (one, filter) => filter.state.split(",").some(state => one.counts?.[state] > 0 ||
    one.status === state);

  function noMessages(data) {
    if (data.errors) return null;
    const isFiltered = Object.keys(data.filter).length > 0;
    return emptyState(isFiltered ? text("messages.no_match") : text("messages.none"), ownOnlyNote(),
      isFiltered ? el("p", null,
        el("a", { href: href("/messages"), "data-remove-filter": true }, text("messages.remove_filter"))) : command(
        `chapar send --url ${location.origin} --to ios-apns:TOKEN Hello`));
  }
  function footer(data) {
    const { looked_back_to: back, next, filter } = data;
    // A cursor goes on in one search, so words such as `1d` become the times that they stood for.
    const { since, until } = data.request ?? {},
      older = next && href("/messages", { ...filter, since, until, cursor: next });
    const isPartial = next && back && data.items.length < pageSize;
    return el("p", { class: "buttons", key: "footer" },
      isPartial && el("span", { class: "note", "data-partial": back },
        pieces("messages.looked_back", { time: formats.moment.format(new Date(back)) })),
      next && el("a", { class: "button", href: older, "data-older": true },
        isPartial ? text("messages.further") : text("messages.older")),
      data.cursor && el("a", { class: "button", href: href("/messages", filter) }, text("messages.newest")));
  }

  // Actions

  function selectionBar(data, ctx) {
    const ids = [...(ctx.state.selected ?? [])];
    const canResendAll = can("resend") && data.filter.state && data.items.length > 0 && !data.filter.q &&
      data.filter.state.split(",").every(one => ["failed", "expired", "unknown"].includes(one));
    if (!ids.length && !canResendAll) return null;
    return el("div", { class: "bar-bottom", key: "selection", role: "group", "aria-label": text("base.actions") },
      ids.length > 0 && [el("span", { key: "count" }, text("messages.selected", { count: ids.length })),
        actionButton({ name: "resend", id: "selected", label: text("messages.resend"),
            run: () => resendSelected({ id: ids }, ctx) }),
        actionButton({ name: "cancel", id: "selected", label: text("messages.cancel"),
            run: () => cancelMessages(ids, ctx) }),
        el("button", { type: "button", key: "copy", "data-action": "copy-ids",
            onclick: async () => { await navigator.clipboard.writeText(ids.map(forSheet).join("\n"));
              toast(text("base.copied")); } }, text("messages.copy_ids"))],
      canResendAll && actionButton({ name: "resend", id: "filter", label: text("messages.resend_filter"),
          run: () => resendSelected({ until: data.readAt, ...toFilter(data.filter) }, ctx) }));
  }

  async function resendSelected(filter, ctx) {
    if (await resendDialog({ filter })) ctx.state.selected?.clear();
  }

  // What comes by itself

  async function onLive(news, ctx) {
    const data = current.data;
    if (!news.lanes || !data?.items || data.errors || current.isLoading || document.hidden || openDialogs.length)
      return;
    const totals = JSON.stringify(news.lanes.totals), hasMoved = totals !== totalsSeen;
    const isBusy = ctx.state.selected?.size || document.querySelector("details.menu[open]");
    if (hasMoved && !isBusy && Date.now() - refreshedAt > refreshSeconds * 1000) {
      refreshedAt = Date.now();
      totalsSeen = totals;
      await refreshRows(data, current.controller.signal).catch(() => {});
    }
    const { accepted } = news.lanes.totals;
    if (accepted !== acceptedSeen && !data.cursor && !data.filter.q && !data.filter.until &&
      Date.now() - newerAt > newerSeconds * 1000) {
      newerAt = Date.now();
      acceptedSeen = accepted;
      await countNewer(data, current.controller.signal).catch(() => {});
    }
  }
  /** Reads the visible unfinished rows again, by one question. */
  async function refreshRows(data, signal) {
    const open = data.items.filter(one => onItsWay.some(state => one.counts?.[state]) ||
      one.status === "accepted_by_platform").slice(0, pageSize);
    if (!open.length) return;
    const answer = await api.get("/v1/notifications", { id: open.map(one => one.id).join(","), limit: pageSize },
      signal);
    const found = new Map(answer.items.map(one => [one.id, one]));
    let hasChanged = false;
    for (const one of open) {
      const fresh = found.get(one.id);
      if (!fresh || JSON.stringify(fresh.counts) === JSON.stringify(one.counts)) continue;
      Object.assign(one, { status: fresh.status, counts: fresh.counts });
      data.details.delete(one.id);
      hasChanged = true;
    }
    if (!hasChanged) return;
    await addDetails(data, signal);
    requestLiveDraw();
  }
  /** How many there are above the first row, 50 at most. */
  async function countNewer(data, signal) {
    const since = data.items[0]?.created_at ?? data.readAt, shown = new Set(data.items.map(one => one.id));
    const answer = await api.get("/v1/notifications", { ...toRequest(data.filter), since, limit: pageSize + 1 },
      signal);
    const count = answer.items.filter(one => !shown.has(one.id)).length;
    if (count === data.newer) return;
    if (!data.newer) announce(text("messages.newer", { count }));
    data.newer = count;
    requestLiveDraw();
  }

  addView({ path: "/messages", title: "base.nav_messages", needs: ["read"], load, draw, live: onLive });
}

/** Asks before messages are cancelled. */
async function cancelMessages(ids, ctx) {
  const each = async params => {
    const sum = { cancelled: 0, too_late: 0, in_flight: 0 };
    for (const id of ids) {
      const answer = await api.delete("/v1/notifications/" + part(id), params);
      for (const name in sum) sum[name] += answer[name] ?? 0;
    }
    return sum;
  };
  const done = await confirmAction({
    name: "cancel", title: text("cancel.title"),
    preview: async () => {
      const sum = await each({ dry_run: true });
      const lines = [text("cancel.of", { count: sum.cancelled })];
      if (sum.too_late) lines.push(text("cancel.too_late", { count: sum.too_late }));
      if (sum.in_flight) lines.push(text("cancel.in_flight", { count: sum.in_flight }));
      return { count: sum.cancelled, lines, verb: text("cancel.verb", { count: sum.cancelled }) };
    },
    run: () => each({}),
  });
  if (!done) return;
  toast(text("cancel.done", { count: done.cancelled }));
  ctx.state.selected?.clear();
  reload();
}
