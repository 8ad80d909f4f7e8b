// Tables. A row is a snapshot: nothing here inserts, removes or moves one by itself. On a phone a row is two lines.

/**
 * A table. `columns`: {name, label, kind} with kind `number`, `main` (the first line on a phone) or `end`; `rows`:
 * {key, cells, class,
 * state} with a cell for each column; `selection`: {keys, change} adds a box to each row; `sort`: {by, descending,
 * change}
 * makes the heads of columns with `sortable` buttons.
 */
function table({ label, columns, rows, selection, sort, name }) {
  const head = columns.map(column => el("th",
      { key: column.name, scope: "col", role: "columnheader", class: column.kind,
    "aria-sort": sort?.by === column.name ? sort.descending ? "descending" : "ascending" : null },
  column.sortable && sort
    ? el("button", { type: "button", class: "sort", onclick: () => sort.change(column.name) }, column.label,
    sort.by === column.name && icon(sort.descending ? "down" : "newer"))
    : column.label));
  return el("table", { class: "list", role: "table", "aria-label": label, "data-list": name },
    el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, selection && selectAll(rows, selection), head)),
    el("tbody", { role: "rowgroup" }, rows.map(row => tableRow(row, columns, selection))));
}
function tableRow(row, columns, selection) {
  const isSelected = selection?.keys.has(row.key);
  return el("tr", { key: row.key, role: "row", "data-row": row.key, "data-state": row.state,
      class: (row.class ?? "") + (isSelected ? " selected" : "") },
    selection && el("td", { key: "select", role: "cell", class: "box" },
      el("input", { type: "checkbox", "data-select": true, checked: isSelected,
          "aria-label": text("base.select_row", { name: row.name ?? row.key }),
        onclick: event => selection.change(row.key, event.target.checked, event.shiftKey) })),
    columns.map((column, index) => el("td",
        { key: column.name, role: "cell", class: column.kind, "data-label": column.label }, row.cells[index])));
}
function selectAll(rows, selection) {
  const areAll = rows.length > 0 && rows.every(row => selection.keys.has(row.key));
  return el("th", { key: "select", scope: "col", role: "columnheader", class: "box" },
    el("input", { type: "checkbox", "aria-label": text("base.select_all"), checked: areAll,
        onclick: event => selection.all(event.target.checked) }));
}

/** The selection of a list: the keys, with ranges by Shift. `order` gives the keys of the rows. */
function selectionOf(state, order, redraw) {
  state.selected ??= new Set();
  return {
    keys: state.selected,
    change(key, isOn, isRange) {
      const list = order(), from = list.indexOf(state.lastSelected), to = list.indexOf(key);
      const range = isRange && from >= 0 && to >= 0 ? list.slice(Math.min(from, to), Math.max(from, to) + 1) : [key];
      for (const one of range) if (isOn) state.selected.add(one); else state.selected.delete(one);
      state.lastSelected = key;
      redraw();
    },
    all(isOn) {
      state.selected.clear();
      if (isOn) for (const one of order()) state.selected.add(one);
      redraw();
    },
  };
}

/** The link of a row to its own view. */
const rowLink = (address, ...inside) => el("a", { href: address, "data-open": true }, inside);

/** Facts: [label, value] each; those without a value are left out. */
function facts(list) {
  return el("dl", "facts",
    list.filter(([, value]) => value != null && value !== "" && value !== false).map(([label, value]) =>
    el("div", { key: label }, el("dt", null, label), el("dd", null, value))));
}
/** A part of a view with a heading. */
function section(title, props, ...inside) {
  return el("section", { key: title, ...(typeof props === "string" ? { class: props } : props) }, el("h2", null, title),
    inside);
}
/** A bar of progress. `part` is from 0 to 1. */
function progressBar(part, label) {
  return el("progress", { max: "1", value: part, "aria-label": label });
}
/** Nothing is there: a sentence, and what to do. */
const emptyState = (sentence, ...more) => el("div", { class: "card empty", "data-empty": true, key: "empty" },
  el("p", null, sentence), more);
/** A command for the shell, to be copied. */
const command = line => el("p", "command", code(line), " ", copyButton(line));

/** A menu of actions. Empty menus are not drawn. */
function menu(label, ...items) {
  const list = flattened(items);
  return list.length > 0 && el("details", { class: "menu", key: "menu",
    onfocusout: event => {
      if (!event.currentTarget.contains(event.relatedTarget) && event.relatedTarget)
      event.currentTarget.open = false; } },
  el("summary", { "aria-label": label, title: label, "data-menu": true }, icon("menu")),
  el("div", { class: "menu-items" }, list));
}
