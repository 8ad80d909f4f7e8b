// The filter: `key:value` words divided by spaces, as text, as parameters, and as a request. The keys are the API's
// parameters letter for letter. A bare word is looked for in four of them.

const filterKeys = ["id", "user", "device", "reference", "state", "dead", "app", "backend", "reason", "segment",
  "collapse_id", "key", "since", "until"];
const listKeys = ["id", "state", "backend", "reason", "key"];
const wordKeys = ["id", "user", "device", "reference"];
const states = ["queued", "scheduled", "sending", "retrying", "accepted_by_platform", "delivered", "opened", "failed",
  "expired", "cancelled", "unknown"];
const onItsWay = ["queued", "scheduled", "sending", "retrying"];
const handedOver = ["accepted_by_platform", "delivered", "opened"];

/** Reads a text. `params` has a value for each key, and bare words as `q`; `errors` are {code, word}. */
function toParams(filter) {
  const params = {}, errors = [];
  for (const word of filterWords(filter)) {
    if (word.key === null) {
      if (params.q !== undefined) errors.push({ code: "two_words", word: word.value }); else params.q = word.value;
    } else if (!filterKeys.includes(word.key)) {
      errors.push({ code: "unknown_key", word: word.key });
    } else if (word.value === "") {
      errors.push({ code: "empty", word: word.key });
    } else if (params[word.key] !== undefined && !listKeys.includes(word.key)) {
      errors.push({ code: "twice", word: word.key });
    } else {
      params[word.key] = params[word.key] === undefined ? word.value : params[word.key] + "," + word.value;
    }
  }
  return { params, errors };
}

/**
 * The words of a text: {key, value}; the key is null for a bare word. Quotes keep spaces, a backslash keeps a quote.
 */
function filterWords(filter) {
  const found = [];
  let key = null, value = "", isQuoted = false, isStarted = false;
  const end = () => {
    if (isStarted) found.push({ key, value });
    [key, value, isStarted] = [null, "", false];
  };
  for (let i = 0; i < filter.length; i++) {
    const letter = filter[i];
    if (letter === "\\" && isQuoted && i + 1 < filter.length) value += filter[++i];
    else if (letter === "\"") [isQuoted, isStarted] = [!isQuoted, true];
    else if (/\s/.test(letter) && !isQuoted) end();
    else if (letter === ":" && !isQuoted && key === null && /^[a-z_]+$/.test(value))
      [key, value, isStarted] = [value, "", true];
    else [value, isStarted] = [value + letter, true];
  }
  end();
  return found;
}

/** Names divided by commas; one that has a comma itself stands in quotes. */
function namesIn(typed) {
  const found = typed.match(/(?:"(?:\\.|[^"\\])*"|[^,])+/g) ?? [];
  return found.map(one => one.trim().replace(/^"(.*)"$/s, (_, inside) => inside.replace(/\\(.)/g, "$1"))).filter(
    Boolean);
}

/** Writes parameters as a text: the keys in their order, then the bare word. */
function toText(params) {
  const parts = filterKeys.filter(key => params[key]).map(key => key + ":" + quoted(params[key]));
  if (params.q) parts.push(quoted(params.q, true));
  return parts.join(" ");
}
function quoted(value, isBare = false) {
  const isPlain = value !== "" && !/[\s"\\]/.test(value) && !(isBare && value.includes(":"));
  return isPlain ? value : "\"" + value.replace(/["\\]/g, "\\$&") + "\"";
}

/** The names of an address that are no keys of a filter: what they were meant to narrow would not be narrowed. */
const unknownKeys = params => Object.keys(params).filter(key => key !== "q" && !filterKeys.includes(key));

/** What is wrong with parameters before they are asked for: null, or the code of an error. */
function missing(params) {
  if (!Object.keys(params).length || params.since || params.q || wordKeys.some(key => params[key]) || params.dead)
    return null;
  const indexed = ["failed", "expired", "unknown"];
  if (params.state && params.state.split(",").every(one => indexed.includes(one))) return null;
  return "since_missing";
}

/** A time as the API takes it: relative words (`2h`, `1d`, `yesterday`) are told from now. */
function toTime(value) {
  const found = /^(\d{1,5})(m|h|d)$/.exec(latinDigits(value));
  const at = n => new Date(Math.floor((now() - n) / 1000) * 1000).toISOString().replace(".000Z", "Z");
  if (found) return at(Number(found[1]) * { m: 60000, h: 3600000, d: 86400000 }[found[2]]);
  if (value !== "yesterday" && value !== "today") return value;
  const midnight = new Date(now());
  midnight.setHours(0, 0, 0, 0);
  if (value === "yesterday") midnight.setDate(midnight.getDate() - 1);
  return midnight.toISOString();
}
/** The parameters of a request: lists stay lists, times become exact. */
function toRequest(params) {
  const request = {};
  for (const key of filterKeys) {
    if (params[key]) request[key] = key === "since" || key === "until" ? toTime(params[key]) : params[key];
  }
  return request;
}
/** The filter of a request body (resend, acknowledge): lists are arrays there. */
function toFilter(params) {
  return Object.fromEntries(Object.entries(toRequest(params)).map(([key, value]) =>
    [key, key === "dead" ? value === "true" : listKeys.includes(key) ? value.split(",") : value]));
}
