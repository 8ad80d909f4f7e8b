// The filter bar: the text of a filter, its errors under it, and what can be written next.

/**
 * A filter bar. `params` are those of the address; `onSearch(params)` gets new ones, only where the text is right.
 * `state` keeps what
 * is typed; `suggestions` gives known values by key, such as {backend: ["ios"]}.
 */
function filterBar({ name, params, state, onSearch, suggestions = {}, redraw, help = true }) {
  const id = fieldID(name), listID = id + "l";
  const submit = event => {
    event.preventDefault();
    const { params: wanted, errors } = toParams($(id).value);
    const code = errors.length ? null : missing(wanted);
    state.errors = code ? [{ code }] : errors;
    if (state.errors.length) redraw(); else onSearch(wanted);
  };
  const complete = event => {
    state.typed = event.target.value;
    state.offers = filterOffers(state.typed, suggestions);
    redraw();
  };
  return el("form", { class: "filter", role: "search", onsubmit: submit, key: "filter-" + name },
    el("label", { for: id, class: "unseen" }, text("filter.label")),
    el("div", "filter-line",
      icon("search"),
      el("input", { id, name: "filter", "data-search": true, type: "search", dir: "ltr", autocomplete: "off",
          spellcheck: "false", list: listID, enterkeyhint: "search",
        placeholder: text("filter.placeholder"), value: toText(params), oninput: complete,
        "aria-invalid": state.errors?.length ? "true" : null,
        "aria-describedby": state.errors?.length ? id + "e" : help ? id + "h" : null }),
      el("button", { type: "submit" }, text("filter.search"))),
    el("datalist", { id: listID },
      (state.offers ?? filterOffers("", suggestions)).map(one => el("option", { value: one, key: one }))),
    state.errors?.length > 0 &&
      el("div", { id: id + "e", class: "bad error", role: "alert" },
      state.errors.map(one => el("p", { key: one.code + one.word }, filterError(one)))),
    help && el("p", { id: id + "h", class: "note" },
      pieces("filter.help", { example: code("user:ali state:failed since:1d") })));
}
function filterError({ code: kind, word, detail }) {
  if (kind === "refused") return [word && [code(word), " "], words(detail)];
  const keys = filterKeys.join(" ");
  return pieces("filter." + kind, { word: code(word ?? ""), keys: code(keys), since: code("since:1d") });
}

/** What the last word may become: the names of keys, or the known values of its key. */
function filterOffers(typed, suggestions) {
  const start = typed.lastIndexOf(" ") + 1, before = typed.slice(0, start), word = typed.slice(start),
    colon = word.indexOf(":");
  if (colon < 0) return filterKeys.filter(key => key.startsWith(word)).map(key => before + key + ":");
  const key = word.slice(0, colon), told = word.slice(colon + 1);
  const known = { state: states, since: ["1h", "1d", "7d", "yesterday"], until: ["1h", "1d", "yesterday"],
    dead: ["true"], ...suggestions }[key] ?? [];
  const comma = told.lastIndexOf(",") + 1;
  return known.filter(one => one.startsWith(told.slice(comma))).slice(0,
    30).map(one => before + key + ":" + told.slice(0, comma) + quoted(one));
}
