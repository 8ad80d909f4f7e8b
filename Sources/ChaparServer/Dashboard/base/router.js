// Addresses stand after `#`: no id of a user reaches a proxy's log. A view is registered once and found by its path.

const views = [];
/**
 * Registers a view: `path` (`/messages/:id`), `title` (a key of the texts, or a function of data and ctx), `needs`
 * (scopes, any
 * of which will do), `load(params, signal)` gives its data, `draw(data, ctx)` describes it, and `live(news, ctx)`,
 * which
 * may be left out, is told what the stream brings.
 */
function addView(view) {
  const names = [];
  const pattern = view.path.replace(/:(\w+)/g, (_, name) => { names.push(name); return "([^/]+)"; });
  views.push({ ...view, names, pattern: new RegExp("^" + pattern + "$") });
}

/** The address of a path with parameters. */
function href(path, params) {
  const list = Object.entries(params ?? {}).filter(([, value]) => value != null && value !== "");
  return "#" + path + (list.length ? "?" +
    new URLSearchParams(list).toString().replaceAll("%3A", ":").replaceAll("%2C", ",") : "");
}

/** The view and the parameters of an address; the view is null for one that there is not. */
function matched(hash) {
  const [path, query] = (hash.replace(/^#/, "") || "/").split(/\?(.*)/s);
  const params = Object.fromEntries(new URLSearchParams(query ?? ""));
  for (const view of views) {
    const found = view.pattern.exec(path);
    if (!found) continue;
    try {
      view.names.forEach((name, index) => { params[name] = decodeURIComponent(found[index + 1]); });
    } catch { return { view: null, path, params }; }
    return { view, path, params };
  }
  return { view: null, path, params };
}

function go(path, params, { replace = false } = {}) {
  const address = href(path, params);
  if (address === (location.hash || "#/")) return reopen();
  if (!replace) { location.hash = address; return; }
  history.replaceState(history.state, "", address);
  reopen();
}
