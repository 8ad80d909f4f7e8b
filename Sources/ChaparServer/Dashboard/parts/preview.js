// The message on a phone. A sketch of each platform's lock screen; the texts run in their own direction, and links and
// pictures of data are shown as texts, never opened.

/** Where each platform's screen cuts, in characters. Screens differ: it is a guide. */
const screens = { ios: { title: 40, body: 178 }, android: { title: 45, body: 240 }, huawei: { title: 40, body: 200 },
  web: { title: 50, body: 120 } };

/** The languages of a content's texts: those of the members that differ by language. */
function languagesOf(content) {
  const found = ["title", "subtitle",
    "body"].flatMap(name => typeof content?.[name] === "object" && content[name] ? Object.keys(content[name]) : []);
  return [...new Set(found)];
}
const textIn = (value, tag) => typeof value === "object" && value ? value[tag] ?? value.default ??
  Object.values(value)[0] : value;

/** A lock screen of a platform with the content in a language. */
function lockScreen(platform, content, tag) {
  const limits = screens[platform];
  const cut = (value, limit) => {
    const letters = [...String(value ?? "")];
    return letters.length > limit ? letters.slice(0, limit).join("") + "…" : letters.join("");
  };
  const title = textIn(content.title, tag), body = textIn(content.body, tag), subtitle = textIn(content.subtitle, tag);
  return el("div", { class: "phone " + platform, "data-preview": platform },
    el("p", "phone-head", icon("dot"), " ", text("preview.app"), el("span", "soft", " · ", text("preview.now"))),
    title && el("p", { class: "phone-title", dir: "auto" }, cut(title, limits.title)),
    subtitle && el("p", { class: "phone-title", dir: "auto" }, cut(subtitle, limits.title)),
    body && el("p", { class: "phone-body", dir: "auto" }, cut(body, limits.body)),
    content.image && el("p", "soft note", text("preview.image"), " ", code(content.image)),
    content.actions?.length > 0 &&
      el("p", "phone-actions",
      content.actions.map(one => el("span", { key: one.id, dir: "auto" }, textIn(one.title, tag) ?? one.id))),
    !title && !body && el("p", "soft", text("preview.silent")));
}

/** The content as each platform shows it, and as JSON. `state` keeps the tab and the language. */
function contentTabs({ content, whole, state, redraw, payloads }) {
  const tabs = [...Object.keys(screens), "json"], tab = state.tab ?? "ios", tags = languagesOf(content);
  const tag = tags.includes(state.language) ? state.language : tags[0];
  const select = (index, event) => {
    state.tab = tabs[(index + tabs.length) % tabs.length];
    redraw();
    if (event) requestAnimationFrame(() => document.querySelector(`[data-tab=${state.tab}]`)?.focus());
  };
  return el("div", { class: "tabs", key: "content" },
    el("div", { role: "tablist", "aria-label": text("preview.label") },
      tabs.map((one, index) => el("button", { type: "button", role: "tab", key: one, id: "tab-" + one, "data-tab": one,
      "aria-selected": String(one === tab), "aria-controls": "tab-panel", tabindex: one === tab ? "0" : "-1",
      onclick: () => select(index),
      onkeydown: event => { const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (step) select(index + step * (document.documentElement.dir === "rtl" ? -1 : 1), event); } },
      text("preview." + one)))),
    el("div", { role: "tabpanel", id: "tab-panel", "aria-labelledby": "tab-" + tab, tabindex: "0" },
      tab === "json" ? el("pre", { dir: "ltr" }, JSON.stringify(whole, null, 2)) : lockScreen(tab, content, tag),
      tab !== "json" && tags.length > 0 &&
        choice({ name: "content-language", label: text("preview.language"), value: tag,
          options: tags.map(one => [one, one]),
        onchange: event => { state.language = event.target.value; redraw(); } }),
      tab !== "json" && el("p", "note", previewLength(content, tag, tab)),
      tab !== "json" && payloads?.map(one => el("p", { class: "note", key: one.backend }, code(one.backend), " ",
          one.bytes != null &&
          text("preview.bytes", { bytes: number(one.bytes), limit: one.limit == null ? "–" : number(one.limit) })))));
}
function previewLength(content, tag, platform) {
  const letters = value => [...String(textIn(value, tag) ?? "")].length, limits = screens[platform];
  return text("preview.length",
    { title: letters(content.title), body: letters(content.body), title_cut: limits.title, body_cut: limits.body });
}
