// A segment: its rule as text beside a tree, with a count while it is written; or its members.

addView({
  path: "/audiences/new",
  title: "segment.new",
  needs: ["devices"],
  load: async () => ({ segment: null, members: null }),
  draw: (data, ctx) => [backLink("/audiences", text("audiences.title")), heading(text("segment.new")),
    segmentForm(null, ctx)],
});

addView({
  path: "/audiences/segments/:name",
  title: data => data.segment.name,
  needs: ["devices"],
  async load(params, signal) {
    const path = "/v1/segments/" + part(params.name), segment = await api.get(path, { app: params.app }, signal);
    const members = segment.kind === "rule" ? null
      : await api.get(path + "/members", { limit: 50, cursor: params.cursor, app: params.app }, signal);
    return { segment, members };
  },
  draw({ segment, members }, ctx) {
    const count = ctx.state.count ??= new Map();
    return [
      backLink("/audiences", text("audiences.title")),
      heading(code(segment.name), el("div", "buttons",
        can("broadcast") && can("send") &&
          el("a", { class: "button main", href: href("/send", { to: "segment:" + segment.name, app: ctx.params.app }),
            "data-action": "send-to" }, text("audiences.send_to")),
        actionButton({ name: "count", id: segment.name, action: "edit_segment", label: text("segment.count"),
            run: () => countSegment(segment.name, "exact", count, ctx) }),
        actionButton({ name: "delete", id: segment.name, action: "edit_segment", kind: "harm",
            label: text("segment.delete"), run: () => deleteSegment(segment, ctx) }))),
      facts([
        [text("segment.kind"), text("audiences.kind_" + segment.kind)],
        [text("segment.updated"), when(segment.updated_at)],
        [text("segment.members"), segment.members != null && number(segment.members)],
        [text("audiences.devices"), segment.devices != null && number(segment.devices)],
        [text("segment.unknown"), segment.unknown > 0 && number(segment.unknown)],
        [text("segment.counted"),
          count.has(segment.name) && [countWords(count.get(segment.name)), countCost(count.get(segment.name))]]]),
      segment.kind === "rule" ? segmentForm(segment, ctx) : membersSection(segment, members, ctx),
    ];
  },
});

/** What a count cost, and who gets nothing. */
function countCost(found) {
  const skipped = Object.entries(found.skipped ?? {});
  return el("p", "note", found.cost && text("segment.cost_" + found.cost.reads, { count: found.cost.rows }), " ",
    skipped.length > 0 &&
      listOf(skipped.map(([cause, count]) => hasText("audiences.skipped_" + cause)
        ? text("audiences.skipped_" + cause, { count }) : cause)));
}

// The editor

const ruleExample = { all: [{ tag: "plan:pro" }, { platform: "ios" }] };
const countMilliseconds = 500;
/** The editor of a rule; without a segment, of a new one, which may be a list too. */
function segmentForm(segment, ctx) {
  const own = ctx.state.editor ??= { text: JSON.stringify(segment?.rule ?? ruleExample, null, 2), name: "", errors: [],
    found: null, kind: "rule" };
  const parsed = parsedRule(own.text);
  const change = event => {
    own.text = event.target.value;
    own.errors = [];
    clearTimeout(own.timer);
    own.timer = setTimeout(() => countRule(own, ctx), countMilliseconds);
    ctx.redraw();
  };
  if (!own.found && !own.isAsked && parsed.rule) {
    own.isAsked = true;
    queueMicrotask(() => countRule(own, ctx));
  }
  return el("form", { class: "segment-form", key: "form", "aria-label": text("segment.rule"),
      onsubmit: event => { event.preventDefault();
        return perform("save segment", () => saveSegment(segment, own, ctx)); } },
    !segment && field({ name: "segment-name", label: text("audiences.name"), required: true,
        pattern: "[A-Za-z0-9._:\\-]+", maxlength: "128", dir: "ltr", value: own.name, autocomplete: "off",
      help: text("segment.name_help"), oninput: event => { own.name = event.target.value; } }),
    el("div", "columns",
      field({ name: "rule", label: text("segment.rule"), tag: "textarea", rows: "12", dir: "ltr", spellcheck: "false",
          value: own.text, oninput: change, error: parsed.error && text("segment.not_json"),
          help: text("segment.rule_help") }),
      el("div", { key: "tree-side" }, el("p", "soft", text("segment.tree")),
        parsed.rule ? ruleTree(parsed.rule, own.errors, own.root) : el("p", "soft", "–"))),
    el("p", { key: "live", class: "live-count", "data-live-count": own.found ? own.found.count : null },
      own.found ? [countWords(own.found), " ", text("segment.match", { count: own.found.matched })]
      : text("segment.not_counted"), own.found && countCost(own.found)),
    own.errors.length > 0 &&
      el("div", { class: "bad", role: "alert", key: "errors" },
      own.errors.map(one => el("p", { key: one.pointer + one.code }, code(one.pointer), " ", words(one.detail)))),
    can("edit_segment") &&
      el("p", "buttons", el("button",
        { type: "submit", class: "main", disabled: !parsed.rule || isLost(), "data-action": "save" },
        text("segment.save"))),
    !segment && can("edit_segment") && loadForm(own, ctx));
}
function parsedRule(typed) {
  try {
    const rule = JSON.parse(typed);
    return rule && typeof rule === "object" && !Array.isArray(rule) ? { rule } : { error: true };
  } catch { return { error: true }; }
}
/** Counts the rule while it is written, by samples. */
async function countRule(own, ctx) {
  const { rule } = parsedRule(own.text);
  own.controller?.abort();
  if (!rule) return;
  own.controller = new AbortController();
  try {
    own.found = await api.post("/v1/audiences/count" + queryOf({ app: ctx.params.app }),
      { audience: rule, mode: "estimate" }, { signal: own.controller.signal });
    own.errors = [];
  } catch (error) {
    if (isAbort(error)) return;
    own.found = null;
    [own.errors, own.root] = [error.errors ?? [], "#/audience"];
  }
  ctx.redraw();
}
async function saveSegment(segment, own, ctx) {
  const { rule } = parsedRule(own.text), name = segment?.name ?? own.name.trim(),
    path = "/v1/segments/" + part(name) + queryOf({ app: ctx.params.app });
  if (!rule || !name) return;
  const before = segment?.rule;
  try { await api.put(path, { rule }); } catch (error) {
    [own.errors, own.root] = [error.errors ?? [], "#/rule"];
    throw error;
  }
  toast(text("segment.saved", { name }),
    { undo: before && (async () => { await api.put(path, { rule: before }); ctx.state.editor = null;
          await ctx.reload(); }) });
  if (segment) await ctx.reload(); else go("/audiences/segments/" + part(name), { app: ctx.params.app });
}

// Lists

/** Makes a segment of a file with a column `device` or `user`. */
function loadForm(own, ctx) {
  const load = async event => {
    const [file] = event.target.files;
    if (!file || !own.name.trim()) return toast(text("segment.name_first"), { tone: "bad" });
    return perform("load segment", async () => {
      const list = listOfCSV(await file.text());
      if (!list) throw new Refusal({ status: 422, title: text("segment.no_column") });
      await api.put("/v1/segments/" + part(own.name.trim()) + queryOf({ app: ctx.params.app }), list);
      toast(text("segment.loaded", { name: own.name.trim(), count: Object.values(list)[0].length }));
      go("/audiences/segments/" + part(own.name.trim()), { app: ctx.params.app });
    });
  };
  return section(text("segment.load"), { key: "load" },
    field({ name: "file", label: text("segment.file"), help: text("segment.file_help"), type: "file",
        accept: ".csv,text/csv,text/plain", onchange: load }));
}
/** The members of a file: `{devices}` or `{users}`, by the heading of the column; null where there is none. */
function listOfCSV(file) {
  const lines = file.split(/\r?\n/).filter(Boolean).map(
    line => line.split(",").map(one => one.trim().replace(/^"(.*)"$/, "$1")));
  const column = lines[0]?.findIndex(one => one === "device" || one === "user") ?? -1;
  if (column < 0) return null;
  const members = lines.slice(1).map(line => line[column]).filter(Boolean);
  return lines[0][column] === "user" ? { users: members } : { devices: members };
}
function membersSection(segment, page, ctx) {
  const kind = segment.kind === "users" ? "users" : "devices";
  const change = (verb, name) => api.post(`/v1/segments/${part(segment.name)}/members` +
    queryOf({ app: ctx.params.app }), { [verb]: [name] });
  const remove = name => async () => {
    await change("remove", name);
    toast(text("segment.removed", { name }), { undo: async () => { await change("add", name); await ctx.reload(); } });
    await ctx.reload();
  };
  const rows = page.items.map(
    name => ({ key: name, name,
        cells: [rowLink(href(`/${kind}/` + part(name), { app: ctx.params.app }),
            kind === "users" ? words(name) : code(name)),
    actionButton({ name: "remove", id: name, action: "edit_segment", label: text("segment.remove"),
        run: remove(name) })] }));
  const add = event => {
    event.preventDefault();
    const name = event.target.elements.member.value.trim();
    return name && perform("add member", async () => {
      const answer = await change("add", name);
      if (answer.unknown?.length) return toast(text("segment.no_such_device", { name }), { tone: "bad" });
      toast(text("segment.added", { name }),
        { undo: async () => { await change("remove", name); await ctx.reload(); } });
      return ctx.reload();
    });
  };
  return section(text("segment.members"), { key: "members" },
    can("edit_segment") &&
      el("form", { class: "line-form", "aria-label": text("segment.add_" + kind), onsubmit: add },
      field({ name: "member", label: text("segment.add_" + kind), dir: "auto", required: true, autocomplete: "off" }),
      el("button", { type: "submit", "data-action": "add", disabled: isLost() }, text("segment.add"))),
    rows.length === 0 ? el("p", "soft", text("segment.no_members"))
      : table({ name: "members", label: text("segment.members"),
          columns: [{ name: "member", label: text("segment.member"), kind: "main" },
            { name: "actions", label: text("base.actions"), kind: "end" }], rows }),
    page.next && el("p", null,
      el("a", { class: "button",
          href: href("/audiences/segments/" + part(segment.name), { ...ctx.params, name: null, cursor: page.next }) },
        text("backends.older"))));
}
/** Asks before a segment goes; the dialog says how many devices it has. */
function deleteSegment(segment, ctx) {
  const path = "/v1/segments/" + part(segment.name);
  return confirmAction({
    name: "delete", title: text("segment.delete"),
    async preview(values, signal) {
      const found = await api.get(path + "/count", { app: ctx.params.app }, signal);
      return { count: found.matched, isReady: true, title: text("segment.delete_title", { name: segment.name }),
        verb: text("segment.delete_verb"), lines: [text("segment.delete_note", { count: found.matched })] };
    },
    run: async () => { await api.delete(path, { app: ctx.params.app }); return true; },
  }).then(isDone => {
    if (!isDone) return;
    toast(text("segment.deleted", { name: segment.name }));
    go("/audiences", { app: ctx.params.app });
  });
}
