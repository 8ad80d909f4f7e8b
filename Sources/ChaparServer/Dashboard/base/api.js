// The only place that asks the gateway. At most four requests at a time; an answer of 429 or 503 says when to come
// again.

/** A refusal: the problem that the gateway told of, or that it could not be reached (`status` 0). */
class Refusal extends Error {
  constructor(problem, missingScope = null) {
    super(problem.title ?? String(problem.status));
    Object.assign(this, { status: 0, detail: "", errors: [], ...problem, missingScope });
  }
}
const isAbort = error => error?.name === "AbortError";

const atOnce = 4, longestWait = 5, longestAnswer = 60;
let running = 0;
const queue = [];
/** The last answer came at this time, for those who wonder whether the gateway is there. */
let answeredAt = 0;

/** Asks; gives the JSON of the answer, and its status as `status` where the caller wants it. */
const api = {
  get: (path, params, signal) => request("GET", path + queryOf(params), undefined, { signal }),
  post: (path, body, options) => request("POST", path, body, options),
  put: (path, body, options) => request("PUT", path, body, options),
  patch: (path, body, options) => request("PATCH", path, body, options),
  delete: (path, params, options) => request("DELETE", path + queryOf(params), undefined, options),
  /** `get` for what this gateway may not have: null for 404, and where the key may not read it. */
  async maybe(path, params, signal) {
    try { return await api.get(path, params, signal); } catch (error) {
      if (error instanceof Refusal && [400, 403, 404, 405, 422].includes(error.status)) return null;
      throw error;
    }
  },
};
function queryOf(params) {
  const list = Object.entries(params ?? {}).filter(([, value]) => value != null && value !== "");
  return list.length ? "?" + new URLSearchParams(list) : "";
}
/** A part of a path, such as an id. */
const part = value => encodeURIComponent(value);
/** A key for one action, so that it is carried out once even where it is asked for twice. */
const actionKey = () =>
  [...crypto.getRandomValues(new Uint8Array(12))].map(one => one.toString(16).padStart(2, "0")).join("");

async function request(method, path, body, { signal, idempotency, isRetried } = {}) {
  await turn(signal);
  let answer, told;
  try {
    const headers = authorization();
    if (body !== undefined) headers["Content-Type"] = "application/json";
    if (idempotency) headers["Idempotency-Key"] = idempotency;
    const deadline = AbortSignal.timeout(longestAnswer * 1000);
    answer = await fetch(path.slice(1),
      { method, headers, signal: signal ? AbortSignal.any([signal, deadline]) : deadline,
      body: body === undefined ? undefined : JSON.stringify(body), cache: "no-store" });
    noteClock(answer);
    told = read(await answer.text(), answer.ok);
  } catch (error) {
    if (isAbort(error)) throw error;
    throw new Refusal({ status: 0, title: text("base.unreachable") });
  } finally {
    running--;
    queue.shift()?.();
  }
  if (answer.ok) return told;
  const wait = Number(answer.headers.get("Retry-After")) || 1;
  if ([429, 503].includes(answer.status) && method === "GET" && !isRetried && wait <= longestWait) {
    await new Promise(done => setTimeout(done, wait * 1000));
    return request(method, path, body, { signal, idempotency, isRetried: true });
  }
  if (answer.status === 401) askForKey(session.key ? "key.unknown" : session.reason);
  throw new Refusal({ ...told, status: answer.status }, answer.status === 403 ? scopeOf(told) : null);
}

/** The JSON of an answer; what says that all went well and cannot be read is the answer of something else. */
function read(body, isOk) {
  try { return body ? JSON.parse(body) : {}; } catch (error) {
    if (isOk) throw error;
    return {};
  }
}

/** Waits until one of the four places is free. */
async function turn(signal) {
  signal?.throwIfAborted();
  if (running >= atOnce) await new Promise(done => queue.push(done));
  running++;
  if (signal?.aborted) {
    running--;
    queue.shift()?.();
    signal.throwIfAborted();
  }
}
const authorization = () => session.key ? { Authorization: "Bearer " + session.key } : {};
/** The scope that a refusal names. */
const scopeOf = problem => /\bscopes? [\u0060"“]?([a-z_]+)/.exec(problem.detail ?? "")?.[1] ?? null;

function noteClock(answer) {
  answeredAt = Date.now();
  const told = Date.parse(answer.headers.get("Date") ?? "");
  // The header has whole seconds: a difference below that is none.
  if (!Number.isNaN(told)) live.skew = Math.abs(told - Date.now()) < 1500 ? 0 : told - Date.now();
}
