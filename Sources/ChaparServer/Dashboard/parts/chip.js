// The state of a delivery: a shape, the word in full, and a tone. Nothing is told by colour alone.

const tones = {
  queued: "wait", scheduled: "wait", sending: "wait", retrying: "wait",
  accepted_by_platform: "good", delivered: "good", opened: "good",
  failed: "bad", expired: "bad", unknown: "unsure", cancelled: "soft",
};
const shapes = {
  queued: "M8 3a5 5 0 1 0 0 10 5 5 0 0 0 0-10z",
  scheduled: "M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11zM8 5v3.2l2.2 1.4",
  sending: "M5 3.5v9l7-4.5z", retrying: "M12.5 8A4.5 4.5 0 1 1 11 4.6M12.5 2.5v3h-3",
  accepted_by_platform: "M3 8.5l3.2 3.2L13 5", delivered: "M1.5 8.5l3 3L11 5M7.5 11l1 .7L15 5",
  opened: "M1.5 8S4 3.8 8 3.8 14.5 8 14.5 8 12 12.2 8 12.2 1.5 8 1.5 8zM8 6.4a1.6 1.6 0 1 0 0 3.2 1.6 1.6 0 0 0 0-3.2z",
  failed: "M4 4l8 8M12 4l-8 8",
  expired: "M4.5 2.5h7M4.5 13.5h7M5.5 2.5c0 3.6 5 3.6 5 5.5s-5 1.9-5 5.5M10.5 2.5c0 3.6-5 3.6-5 5.5s5 1.9 5 5.5",
  cancelled: "M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11zM4.2 4.2l7.6 7.6",
  unknown: "M5.5 6a2.5 2.5 0 1 1 3.6 2.2c-.8.4-1.1.8-1.1 1.6M8 12.4v.2",
  warning: "M8 2.5l6 11H2zM8 6.5v3.2M8 11.6v.2", pause: "M5.5 3.5v9M10.5 3.5v9", newer: "M3.5 10L8 5.5l4.5 4.5",
  menu: "M8 3.4v.2M8 7.9v.2M8 12.4v.2", search: "M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9zM10.3 10.3l3.2 3.2",
  copy: "M5.5 5.5h7v8h-7zM3.5 10.5v-8h7", back: "M10 3L5 8l5 5", down: "M4 6l4 4 4-4",
  dot: "M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6z",
};
/** Shapes that run with the text's direction. */
const mirrored = ["sending", "back"];

function icon(name, kind = "") {
  return el("svg", { class: "icon " + (mirrored.includes(name) ? "mirrored " : "") + kind, viewBox: "0 0 16 16",
      "aria-hidden": "true", focusable: "false" },
    el("path", { d: shapes[name] ?? shapes.dot }));
}
const stateWord = state => hasText("states." + state) ? text("states." + state) : state;

/** A chip of a delivery's state; with a count, how many are in it. */
function chip(state, count) {
  const word = count === undefined ? stateWord(state)
    : text("base.counted", { number: number(count), word: stateWord(state) });
  return el("span", { class: "chip " + (tones[state] ?? "soft"), "data-state": state, title: state }, icon(state), " ",
    word);
}
/** A chip of something else: a tone, a shape, and words. */
const mark = (tone, shape, words) => el("span", { class: "chip " + tone }, icon(shape), " ", words);

/** Chips for the counts of a notification, the ones that need a look first. */
function countChips(counts) {
  const order = ["failed", "expired", "unknown", "retrying", "sending", "queued", "scheduled", "opened", "delivered",
    "accepted_by_platform", "cancelled"];
  return order.filter(state => counts?.[state]).map(state => chip(state, counts[state]));
}
