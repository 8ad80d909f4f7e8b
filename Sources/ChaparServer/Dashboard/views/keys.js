// The API keys: what each may do, when it was used last and ends, and how much of the queue it has. Never a key itself.

addView({
  path: "/keys",
  title: "keys.title",
  needs: ["admin"],
  async load(params, signal) {
    const answer = await api.get("/v1/keys", {}, signal);
    setBadge("/keys", answer.keys.filter(one => keyEnd(one) !== "later").length);
    return answer;
  },
  draw(data) {
    const isMeasured = data.keys.some(one => one.share != null);
    // The key with the largest part of the queue stands first: it is the answer to who fills it.
    const keys = isMeasured ? [...data.keys].sort((a, b) => (b.share ?? 0) - (a.share ?? 0)) : data.keys;
    const columns = [
      { name: "name", label: text("keys.name"), kind: "main" },
      { name: "scopes", label: text("keys.scopes"), kind: "wide" }, { name: "reach", label: text("keys.reach") },
      { name: "used", label: text("keys.used") }, { name: "ends", label: text("keys.ends") },
      ...isMeasured ? [{ name: "share", label: text("keys.share") },
        { name: "oldest", label: text("keys.oldest"), kind: "number" }] : [],
    ];
    return [
      heading(text("keys.title")),
      keys.length === 0 ? emptyState(text("keys.none"),
        command("chapar keys create --name shop --scope send --scope read"))
        : table({ name: "keys", label: text("keys.title"), columns, rows: keys.map(one => keyRow(one, isMeasured)) }),
      el("p", { class: "note", key: "note" }, text("keys.note")),
    ];
  },
});

/** Whether a key has ended (`past`), ends within 30 days (`soon`), or later. */
function keyEnd(key) {
  if (!key.not_after) return "later";
  const days = (Date.parse(key.not_after) - now()) / 86400000;
  return days <= 0 ? "past" : days < 30 ? "soon" : "later";
}
function keyRow(key, isMeasured) {
  const end = keyEnd(key);
  return {
    key: key.name, name: key.name, state: end,
    cells: [
      el("b", null, code(key.name)),
      [key.scopes.flatMap((one, index) => [index > 0 && " ", code(one)]),
        key.rotating && el("p", "note", text("keys.rotating"))],
      [key.app && el("p", null, text("keys.app"), " ", code(key.app)),
        key.backends ? key.backends.flatMap((one, index) => [index > 0 && " ", code(one)]) : text("keys.everything")],
      key.last_used ? when(key.last_used) : text("keys.never"),
      key.not_after ? el("span", { later: "", soon: "wait", past: "bad" }[end], end !== "later" && icon("warning"), " ",
        when(key.not_after)) : "–",
      ...isMeasured ? [shareBar(key), duration(key.oldest_age)] : [],
    ],
  };
}
function shareBar(key) {
  if (key.share == null) return "–";
  return [el("meter", { min: "0", max: "1", value: String(key.share),
        "aria-label": text("keys.share_of", { name: key.name }) }), " ", percent(key.share), " ",
    el("span", "soft", text("keys.waiting", { count: key.waiting ?? 0 }))];
}
