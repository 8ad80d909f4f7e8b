// A chart of lines, drawn as SVG. A missing value is a gap. Beside it stand a sentence and a table with the same
// numbers.

const chartWidth = 320, chartHeight = 96, dashes = ["", "6 3", "2 3", "8 3 2 3"];
/** At most so many points and lines are drawn. */
const mostPoints = 288, mostSeries = 8;

/**
 * A chart. `series`: {name, values, tone}, `from` and `step` (seconds) place the values in time, `gaps` {from, until}
 * are times that
 * are not known, `format` writes a value, `state` keeps the crosshair and whether the table is shown.
 */
function chart({ name, label, series, from, step, gaps = [], format = number, state, redraw, top }) {
  const lines = series.slice(0, mostSeries).map(one => ({ ...one, values: one.values.slice(-mostPoints) }));
  const count = Math.max(1, ...lines.map(one => one.values.length));
  const highest = roundTop(top ?? Math.max(0, ...lines.flatMap(one => one.values.filter(value => value != null))));
  const timeAt = index => Date.parse(from) + index * step * 1000;
  const own = state[name] ??= { index: null, isTable: false };
  const point = event => {
    const box = event.currentTarget.getBoundingClientRect();
    own.index = Math.min(count - 1, Math.max(0, Math.round((event.clientX - box.left) / box.width * (count - 1))));
    redraw();
  };
  const key = event => {
    const move = { ArrowLeft: -1, ArrowRight: 1, Home: -count, End: count }[event.key];
    if (!move) return;
    event.preventDefault();
    own.index = Math.min(count - 1, Math.max(0, (own.index ?? count - 1) + move));
    redraw();
  };
  const x = index => count < 2 ? 0 : index / (count - 1) * chartWidth;
  const y = value => chartHeight - 3 - value / highest * (chartHeight - 6);
  const shown = own.index ?? lastKnown(lines, count);
  return el("figure", { class: "chart", key: name, "data-chart": name },
    el("figcaption", null, el("b", null, label), " ",
      el("span", "soft", chartSentence(lines, shown, timeAt, format, own.index != null))),
    el("div", { class: "plot", dir: "ltr" },
      el("span", { class: "top soft", dir: "auto" }, format(highest)),
      el("svg", { viewBox: `0 0 ${chartWidth} ${chartHeight}`, preserveAspectRatio: "none", role: "img", tabindex: "0",
          "aria-label": label + ". " + chartSentence(lines, shown, timeAt, format, false),
        onpointermove: point, onpointerleave: () => { own.index = null; redraw(); }, onkeydown: key,
        onblur: () => { own.index = null; redraw(); } },
      el("path", { class: "axis", d: `M0 3H${chartWidth}M0 ${chartHeight - 3}H${chartWidth}` }),
      gaps.map((gap, index) => gapShape(gap, index, from, step, count)),
      lines.map((one, index) => el("path",
          { key: one.name, class: "line " + (one.tone ?? ""), "data-series": one.name,
            "stroke-dasharray": dashes[index % dashes.length], d: linePath(one.values, x, y) })),
      own.index != null &&
        el("path", { key: "cross", class: "cross", d: `M${x(own.index).toFixed(1)} 0V${chartHeight}` }))),
    el("p", { class: "times soft", dir: "ltr" }, el("span", { dir: "auto" }, chartTime(timeAt(0), step)),
      el("span", { dir: "auto" }, chartTime(timeAt(count - 1), step))),
    lines.length > 1 && el("p", { class: "legend soft", "aria-hidden": "true" },
      lines.map((one, index) => el("span", { key: one.name },
      el("svg", { class: "sample", viewBox: "0 0 24 4" },
        el("path", { class: "line " + (one.tone ?? ""), "stroke-dasharray": dashes[index % dashes.length],
            d: "M0 2H24" })), " ", one.label))),
    el("button", { type: "button", class: "plain", "aria-expanded": String(own.isTable),
        onclick: () => { own.isTable = !own.isTable; redraw(); } }, text("chart.table")),
    own.isTable && chartTable(label, lines, count, timeAt, step, format));
}
/** The path of a line; a missing value lifts the pen, and a lone value is a dot. */
function linePath(values, x, y) {
  let path = "", isDown = false;
  values.forEach((value, index) => {
    if (value == null) { isDown = false; return; }
    path += (isDown ? "L" : "M") + x(index).toFixed(1) + " " + y(value).toFixed(1);
    if (!isDown && values[index + 1] == null) path += "h0.1";
    isDown = true;
  });
  return path || "M0 0";
}
function gapShape(gap, index, from, step, count) {
  const place = at => Math.min(1,
    Math.max(0, (Date.parse(at) - Date.parse(from)) / (step * 1000 * Math.max(1, count - 1)))) * chartWidth;
  const start = place(gap.from), width = Math.max(1, place(gap.until) - start);
  return el("rect", { key: "gap" + index, class: "gap", x: start.toFixed(1), y: "3", width: width.toFixed(1),
      height: String(chartHeight - 6) });
}
/** The next round number: 1, 2 or 5 with zeros. */
function roundTop(value) {
  if (!(value > 0)) return 1;
  const size = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map(one => one * size).find(one => one >= value);
}
/** The last step of which anything is known; null where nothing is. */
const lastKnown = (lines, count) => {
  for (let index = count - 1; index >= 0; index--) if (lines.some(one => one.values[index] != null)) return index;
  return null;
};
const chartTime = (at, step) => (step >= 3600 ? formats.day : formats.clock).format(new Date(at));
function chartSentence(lines, index, timeAt, format, isPointed) {
  if (index == null) return text("chart.none");
  const told = lines.map(one => text("chart.value",
      { name: one.label ?? one.name, value: one.values[index] == null ? "–" : format(one.values[index]) }));
  return text(isPointed ? "chart.at" : "chart.last",
    { time: formats.clock.format(new Date(timeAt(index))), values: listOf(told) });
}
function chartTable(label, lines, count, timeAt, step, format) {
  const rows = Array.from({ length: count },
    (_, index) => count - 1 - index).filter(index => lines.some(one => one.values[index]));
  return el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": label },
    el("table", { "aria-label": label },
    el("thead", null, el("tr", null, el("th", { scope: "col" }, text("chart.time")),
        lines.map(one => el("th", { scope: "col", class: "number", key: one.name }, one.label ?? one.name)))),
    el("tbody", null, rows.map(index => el("tr", { key: index, "data-point": index },
          el("td", null, formats.moment.format(new Date(timeAt(index)))),
      lines.map(one => el("td", { class: "number", key: one.name },
          one.values[index] == null ? "–" : format(one.values[index]))))))));
}
