// Numbers, times and texts of others, as the person's language writes them.

let formats = {};

/** The locale of the person's language, with Latin digits and the Gregorian calendar where that was chosen. */
function locale() {
  const own = navigator.languages.find(one => one.split("-")[0] === language) ?? language;
  return choices.digits === "latin" ? language + "-u-nu-latn-ca-gregory" : own;
}
function makeFormats() {
  const tag = locale(), timeZone = choices.zone || undefined;
  const unit = name => new Intl.NumberFormat(tag,
    { style: "unit", unit: name, unitDisplay: "short", maximumFractionDigits: 1 });
  const time = more => new Intl.DateTimeFormat(tag, { timeZone, hourCycle: "h23", ...more });
  formats = {
    number: new Intl.NumberFormat(tag),
    compact: new Intl.NumberFormat(tag, { notation: "compact", maximumFractionDigits: 1 }),
    percent: new Intl.NumberFormat(tag, { style: "percent", maximumFractionDigits: 1 }),
    list: new Intl.ListFormat(tag), relative: new Intl.RelativeTimeFormat(tag, { numeric: "auto", style: "short" }),
    clock: time({ hour: "2-digit", minute: "2-digit" }),
    second: time({ hour: "2-digit", minute: "2-digit", second: "2-digit" }),
    fine: time({ hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 1 }),
    day: time({ day: "numeric", month: "short" }), date: time({ dateStyle: "medium" }),
    exact: time({ year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit",
        second: "2-digit", timeZoneName: "short" }),
    moment: time({ year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" }),
    utc: new Intl.DateTimeFormat(tag,
      { timeZone: "UTC", hourCycle: "h23", hour: "2-digit", minute: "2-digit", second: "2-digit" }),
    units: { second: unit("second"), minute: unit("minute"), hour: unit("hour"), day: unit("day"), byte: unit("byte"),
      kilobyte: unit("kilobyte") },
  };
}

const number = n => formats.number.format(n ?? 0);
/** A number for a tile: short above 99,999. */
const compact = n => Math.abs(n) > 99999 ? formats.compact.format(n) : number(n);
const percent = part => formats.percent.format(part);
const listOf = items => formats.list.format(items);
const bytes = n => n < 10000 ? formats.units.byte.format(n) : formats.units.kilobyte.format(n / 1000);

function duration(seconds) {
  if (seconds == null) return "–";
  const units = formats.units;
  if (seconds < 100) return units.second.format(seconds < 10 ? Math.round(seconds * 10) / 10 : Math.round(seconds));
  if (seconds < 6000 && seconds !== 3600) return units.minute.format(Math.round(seconds / 60));
  return seconds < 172800 ? units.hour.format(Math.round(seconds / 360) / 10)
    : units.day.format(Math.round(seconds / 86400));
}

// Times

/** The gateway's time, in milliseconds. */
const now = () => Date.now() + live.skew;
const isTime = at => at != null && !Number.isNaN(Date.parse(at));
/** The exact time, with the zone and UTC. */
const exact = at => text("base.exact",
  { time: formats.exact.format(new Date(at)), utc: formats.utc.format(new Date(at)) });
const clock = at => formats.second.format(new Date(at));
const date = at => formats.date.format(new Date(at));

/** How long ago, or how soon; the date where that is more than a week. */
function ago(at) {
  const seconds = (Date.parse(at) - now()) / 1000, size = Math.abs(seconds);
  if (size < 1) return formats.relative.format(0, "second");
  if (size < 60) return formats.relative.format(Math.trunc(seconds), "second");
  if (size < 3600) return formats.relative.format(Math.trunc(seconds / 60), "minute");
  if (size < 86400) return formats.relative.format(Math.trunc(seconds / 3600), "hour");
  if (size < 7 * 86400) return formats.relative.format(Math.trunc(seconds / 86400), "day");
  return date(at);
}
/** In how many days, or how many ago. */
const inDays = at => formats.relative.format(Math.trunc((Date.parse(at) - now()) / 86400000), "day");
const shownTime = at => choices.times === "exact" ? formats.moment.format(new Date(at)) : ago(at);

/** A time: relative, with the exact one at hand. */
function when(at) {
  if (!isTime(at)) return el("span", null, "–");
  return el("time", { datetime: at, title: exact(at) }, shownTime(at));
}
/** The times on the page go on by themselves. */
function refreshTimes() {
  for (const node of document.querySelectorAll("time[datetime]:not(.fine)")) {
    const words = shownTime(node.dateTime), inside = node.firstChild;
    if (inside && inside.data !== words) inside.data = words;
  }
}

// Texts of others

const asMark = one => "⟨" + one.codePointAt(0).toString(16).toUpperCase().padStart(4, "0") + "⟩";
/** A text within a sentence: characters that would turn the direction of what follows are visible marks. */
const unturned = value => value.replace(/[\u0000-\u001f\u007f\u202a-\u202e\u2066-\u2069]/g, asMark);
/** A text with control characters, and characters that turn its direction, as visible marks. */
function visible(value) {
  return String(value).replace(/[\u0000-\u001f\u007f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, asMark);
}
/** Words of people: titles, users, tags. They run in their own direction. */
const words = (value, kind) => value == null || value === "" ? null
  : el("bdi", { dir: "auto", class: kind }, String(value).slice(0, 2000));
/** Words of programs: ids, reasons, statuses, commands. They are Latin, from left to right. */
const code = (value, props) => value == null || value === "" ? null
  : el("code", null, el("bdi", { dir: "ltr", ...props }, visible(String(value).slice(0, 4000))));
/** A long id or token, short, with the whole at hand. */
function short(value) {
  const whole = String(value);
  return whole.length > 24 ? code(whole.slice(0, 6) + "…" + whole.slice(-4), { title: visible(whole) }) : code(whole);
}
/** A recipient: its service or form, and the token or name. */
function recipientOf(value) {
  const whole = String(value ?? ""), colon = whole.indexOf(":");
  if (colon < 0) return short(whole);
  return [code(whole.slice(0, colon)), " ", short(whole.slice(colon + 1))];
}
/** A text for spreadsheets: one that would be a formula there becomes a plain text. */
const forSheet = value => /^[=+\-@\t\r]/.test(value) ? "'" + value : value;
/** Digits of any script as Latin ones, for numbers that people type. */
const latinDigits = value => value.replace(/[۰-۹]/g, d => d.charCodeAt(0) - 0x6f0).replace(/[٠-٩]/g,
  d => d.charCodeAt(0) - 0x660);
