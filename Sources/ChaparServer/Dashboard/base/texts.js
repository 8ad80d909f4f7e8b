// The texts in each language, from texts/*.json. A text that counts is an object with a form for each plural category.

const allTexts = JSON.parse($("texts").textContent);
const languageNames = { en: "English", fa: "فارسی", ru: "Русский" };
const rightToLeft = ["fa"];
let language = "en", plurals = new Intl.PluralRules("en");

/** The language that was chosen, else the first of the browser's that there is. */
function preferredLanguage() {
  const wanted = [choices.language, ...navigator.languages.map(tag => tag.split("-")[0])];
  return wanted.find(tag => Object.hasOwn(languageNames, tag)) ?? "en";
}

function applyLanguage() {
  language = preferredLanguage();
  plurals = new Intl.PluralRules(language);
  makeFormats();
  document.documentElement.lang = language;
  document.documentElement.dir = rightToLeft.includes(language) ? "rtl" : "ltr";
}

/** The entry `group.name` of the texts; undefined where there is none. */
function entry(key, tag = language) {
  const dot = key.indexOf(".");
  return allTexts[tag]?.[key.slice(0, dot)]?.[key.slice(dot + 1)];
}
const hasText = key => entry(key, "en") !== undefined;

/** A text, with values in the place of {names}. Numbers are written as the language does; `count` chooses the form. */
function text(key, values = {}) {
  return pieces(key, values).map(piece => typeof piece === "object" ? "" : piece).join("");
}

/** The parts of a text, so that values may be elements. */
function pieces(key, values = {}) {
  let found = entry(key) ?? entry(key, "en") ?? key;
  if (typeof found === "object") found = found[plurals.select(Number(values.count) || 0)] ?? found.other;
  return found.split(/(\{\w+\})/).filter(Boolean).map(part => {
    const name = /^\{(\w+)\}$/.exec(part)?.[1];
    const value = name === undefined ? part : values[name] ?? part;
    if (typeof value === "string" && name !== undefined) return unturned(value);
    return typeof value === "number" ? number(value) : value;
  });
}
