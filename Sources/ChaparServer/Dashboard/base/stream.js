// One stream a tab. It brings what happens to backends, campaigns and webhooks, and once a second the counts of the
// gateway (`gateway.lanes`); never a delivery: every row of a list is read by a GET.

const streamTypes = ["gateway.*", "backend.*", "notification.progress", "notification.paused", "notification.resumed",
    "notification.ended", "webhook.*", "operation.failed", "device.token_invalidated"];
const retrySeconds = [1, 2, 4, 8, 15], silenceSeconds = 10, hiddenSeconds = 60, largestFrame = 262144;
let lastEvent = null, listener = null, attempts = 0, hiddenTimer = 0, wakeUp = null;

/** Called with what is new: `lanes`, `note` or `gap`. Set by start.js. */
let onNews = () => {};

/** Follows the stream until it is told to stop, and opens it anew when it ends. */
async function listen() {
  listener?.abort();
  const own = listener = new AbortController();
  while (listener === own && !own.signal.aborted) {
    let refusal = null;
    try {
      refusal = await listenOnce(own.signal);
    } catch (error) {
      if (own.signal.aborted) return;
      if (!(error instanceof TypeError) && !isAbort(error)) console.error("stream:", error.name);
    }
    if (listener !== own || live.connection === "key") return;
    const seconds = retrySeconds[Math.min(attempts++, retrySeconds.length - 1)] * (0.8 + Math.random() * 0.4);
    // A gateway that refuses the stream is there: what one asks it is answered, only nothing comes by itself.
    const isThere = refusal?.status >= 400 && refusal.status < 500;
    setConnection(isThere ? "refused" : "lost", { refusal, nextTry: Date.now() + seconds * 1000 });
    await new Promise(done => { wakeUp = done; setTimeout(done, seconds * 1000); });
  }
}
/** Opens the stream and reads it to its end; gives the problem where the gateway refuses. */
async function listenOnce(signal) {
  const silence = new AbortController();
  const both = AbortSignal.any([signal, silence.signal]);
  let timer = setTimeout(() => silence.abort(), silenceSeconds * 1000);
  try {
    const query = { lanes: 1, types: streamTypes.join(","),
      ...(lastEvent == null ? { last: 20 } : { after: lastEvent }) };
    const answer = await fetch("v1/events" + queryOf(query), { headers: authorization(), signal: both });
    noteClock(answer);
    if (answer.status === 401) return askForKey(session.key ? "key.unknown" : session.reason);
    if (answer.status === 403) return stopListening(), setConnection("none");
    if (!answer.ok) return { ...await answer.json().catch(() => ({})), status: answer.status };
    const wasLost = ["lost", "refused"].includes(live.connection);
    attempts = 0;
    setConnection("live");
    if (wasLost) onNews({ gap: true });
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    const frames = new Frames();
    for (;;) {
      clearTimeout(timer);
      timer = setTimeout(() => silence.abort(), silenceSeconds * 1000);
      const { value, done } = await reader.read();
      if (done) return null;
      frames.add(value);
    }
  } finally {
    clearTimeout(timer);
  }
}

/** Cuts what comes into frames. One that grows too large is dropped and counted. */
class Frames {
  rest = "";
  isDropping = false;

  add(chunk) {
    const frames = (this.rest + chunk).split("\n\n");
    this.rest = frames.pop();
    for (const frame of frames) {
      if (this.isDropping || frame.length > largestFrame) {
        this.isDropping = false;
        live.dropped++;
      } else {
        take(frame);
      }
    }
    if (this.rest.length <= largestFrame) return;
    this.rest = "";
    this.isDropping = true;
  }
}

/** Reads a frame: its type first, and its data only where the type is known. */
function take(frame) {
  const type = /^event: (.*)$/m.exec(frame)?.[1];
  const id = /^id: (.*)$/m.exec(frame)?.[1];
  if (id) lastEvent = id;
  if (!type) return;
  if (type === "gateway.gap") return onNews({ gap: true });
  const isLanes = type === "gateway.lanes";
  if (!isLanes && !hasText("notes." + type.replaceAll(".", "_"))) return;
  const start = frame.indexOf("data: ");
  if (start < 0) return;
  let event;
  try { event = JSON.parse(frame.slice(start + 6)); } catch { return; }
  if (isLanes) {
    live.lanes = event;
    live.lanesAt = Date.now();
    onNews({ lanes: event });
  } else {
    live.notes.unshift({ type, event, id });
    live.notes.length = Math.min(live.notes.length, keptNotes);
    onNews({ note: { type, event } });
  }
}

function setConnection(state, more = {}) {
  if (state === "lost" && !isLost()) live.lostSince = live.lanesAt || answeredAt || Date.now();
  if (state === "live") live.lostSince = null;
  live.connection = state;
  live.nextTry = more.nextTry ?? null;
  live.refusal = more.refusal ?? null;
  onNews({ connection: state });
}
function stopListening() {
  listener?.abort();
  listener = null;
}
/** Tries again at once. */
const tryNow = () => wakeUp?.();

/** A hidden tab draws nothing, and closes its stream after a minute. */
function noteVisibility() {
  clearTimeout(hiddenTimer);
  if (document.hidden) {
    hiddenTimer = setTimeout(stopListening, hiddenSeconds * 1000);
  } else if (live.connection !== "key") {
    if (!listener) {
      onNews({ gap: true });
      listen();
    }
    onNews({ shown: true });
  }
}
