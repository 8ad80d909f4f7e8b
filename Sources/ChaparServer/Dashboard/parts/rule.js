// The rule of an audience: one line, and a tree of its leaves in which a mistake is marked at its place.

const ruleGroups = ["all", "any", "not"];

/** A rule as one line; long ones are cut. */
function ruleText(rule) {
  return code(ruleWords(rule).slice(0, 120));
}
function ruleWords(rule, isInside = false) {
  if (rule == null || typeof rule !== "object") return String(rule);
  const [name, value] = Object.entries(rule)[0] ?? ["", ""];
  if (name === "not") return "not " + ruleWords(value, true);
  if (ruleGroups.includes(name) && Array.isArray(value)) {
    const inside = value.map(one => ruleWords(one, true)).join(name === "all" ? " and " : " or ");
    return isInside && value.length > 1 ? "(" + inside + ")" : inside;
  }
  return name + ":" + (typeof value === "object" ? JSON.stringify(value) : value);
}

/** The tree of a rule. `errors` have pointers, such as `#/rule/all/1/tag`; `root` is the pointer of the rule. */
function ruleTree(rule, errors = [], root = "#/rule") {
  const isWrong = pointer => errors.filter(one => one.pointer === pointer || Object.keys(rule ?? {}).length &&
    one.pointer.startsWith(pointer + "/") && !isInner(pointer, one.pointer));
  const isInner = (pointer, found) => /^\/(all|any)\/\d+|^\/not/.test(found.slice(pointer.length));
  const node = (one, pointer) => {
    const [name, value] = Object.entries(one ?? {})[0] ?? ["", null], wrong = isWrong(pointer);
    const list = name === "not" ? [[value, pointer + "/not"]] : ruleGroups.includes(name) && Array.isArray(value)
      ? value.map((each, index) => [each, `${pointer}/${name}/${index}`]) : [];
    return el("li", { key: pointer, "data-pointer": pointer, class: wrong.length ? "bad" : "" },
      list.length > 0 ? el("b", null, text("segment.group_" + name))
        : [code(name), " ", code(typeof value === "object" ? JSON.stringify(value) : value)],
      wrong.map(each => el("p", { class: "bad", key: each.code }, icon("warning"), " ", words(each.detail))),
      list.length > 0 && el("ul", null, list.map(([each, place]) => node(each, place))));
  };
  return el("ul", { class: "tree", key: "tree", "aria-label": text("segment.tree") }, node(rule, root));
}
