// The tokens of a device and their health, and small editors of tags.

/** A token: whether it is alive, else since when it is dead and who said so. */
function tokenLine(service, token) {
  const grave = token.tombstone, refused = Object.entries(token.refused_by ?? {});
  const name = grave?.quarantined ? "held" : token.alive ? refused.length > 0 ? "refused" : "alive" : "dead";
  const shapes = { alive: ["good", "accepted_by_platform"], held: ["wait", "pause"], refused: ["wait", "warning"],
    dead: ["bad", "failed"] };
  return el("li", { key: service, "data-token": service, "data-state": name },
    code(service), " ", token.token ? short(token.token) : token.fingerprint && short(token.fingerprint), " ",
    mark(...shapes[name], text("device.token_" + name)),
    grave && [" ", pieces("device.dead_since", { time: when(grave.as_of), reason: code(grave.reason) }),
      grave.backend && [" ", el("span", "soft", code(grave.backend))]],
    refused.map(([backend, one]) => el("p", { class: "note", key: backend },
        pieces("device.refused_by", { backend: code(backend), reason: code(one.reason), time: when(one.as_of) }))),
    el("p", "note", pieces("device.registered", { time: when(token.registered_at) }),
      token.environment && [" ", code(token.environment)]));
}
/** The tokens of a device; dead ones first, since they are what is looked for. */
function tokenList(tokens) {
  const list = Object.entries(tokens ?? {}).sort(([, a], [, b]) => a.alive - b.alive);
  return list.length === 0 ? el("p", "soft", text("device.no_tokens"))
    : el("ul", "tokens plain-list", list.map(([service, token]) => tokenLine(service, token)));
}

/** Tags with a button beside each to take it off, and a field for a new one. Without `change` they are only shown. */
function tagEditor({ name, label, tags, change }) {
  const add = event => {
    event.preventDefault();
    const box = event.target.elements[name], value = box.value.trim();
    if (!value || tags.includes(value)) return;
    box.value = "";
    change([...tags, value]);
  };
  return el("div", { class: "tags", key: "tags-" + name, role: "group", "aria-label": label, "data-tags": name },
    tags.length === 0 && el("span", "soft", text("device.no_tags")),
    tags.map(one => el("span", { class: "tag", key: one }, words(one),
        change && el("button", { type: "button", class: "plain", "data-action": "remove-tag",
      "aria-label": text("device.remove_tag", { tag: one }), title: text("device.remove_tag", { tag: one }),
      disabled: isLost(), onclick: () => change(tags.filter(tag => tag !== one)) }, icon("failed")))),
    change && el("form", { class: "line-form", "aria-label": text("device.new_tag"), onsubmit: add },
      el("label", { for: fieldID(name), class: "unseen" }, text("device.new_tag")),
      el("input", { id: fieldID(name), name, dir: "auto", maxlength: "256", placeholder: text("device.new_tag"),
          autocomplete: "off" }),
      el("button", { type: "submit", "data-action": "add-tag", disabled: isLost() }, text("segment.add"))));
}

/** Facts that both views of a device show. */
const deviceFacts = device => facts([
  [text("device.user"),
    device.user && el("a", { href: href("/users/" + part(device.user), { app: appOf(device) }) }, words(device.user))],
  [text("device.app"), device.app && device.app !== "default" && code(device.app)],
  [text("device.platform"), device.platform && code(device.platform)],
  [text("device.locale"), device.locale && code(device.locale)],
  [text("device.version"), device.app_version && code(device.app_version)],
  [text("device.zone"), device.time_zone && code(device.time_zone)],
  [text("device.seen"), device.last_seen && when(device.last_seen)], [text("device.created"), when(device.created_at)],
  [text("device.updated"), when(device.updated_at)]]);
/** The app for an address; the only one needs no name. */
const appOf = device => device.app === "default" ? undefined : device.app;

/** What platforms are still to be told of a device, and why it waits. */
function operationList(operations) {
  if (operations.length === 0) return el("p", "soft", text("device.no_operations"));
  return el("ul", "plain-list",
    operations.map(one => el("li", { key: one.id, "data-operation": one.backend }, code(one.backend), " ",
        mark("wait", "retrying", text("device.operation_" + one.kind)), " ",
    text("device.operation_attempts", { count: one.attempts }), " ",
    one.due && pieces("device.operation_due", { time: when(one.due) }), one.reason && [" ", code(one.reason)],
    one.message && el("p", "note", words(one.message)))));
}
/** The last messages: each with its states, its title, and when it was accepted. */
function lastMessages(items) {
  const columns = [{ name: "state", label: text("backends.state"), kind: "wide" },
    { name: "title", label: text("device.message"), kind: "main" },
    { name: "at", label: text("backend.at"), kind: "end" }];
  return table({ name: "messages", label: text("device.messages"), columns,
      rows: items.map(one => ({ key: one.id, name: one.id, state: one.status, cells: [countChips(one.counts),
    rowLink(href("/messages/" + part(one.id)), messageTitle(one)), when(one.created_at)] })) });
}
/** The title of a message, else its first words, else its id. */
function messageTitle(one) {
  const content = one.notification?.content ?? {};
  const shown = one.audience?.name ?? textIn(content.title, language) ?? textIn(content.body, language);
  return shown ? words(shown) : code(one.id);
}
