"""The requests that the documents and the OpenAPI description show."""
import json
import os
import re
import subprocess
from pathlib import Path

from rig import CHAPAR, ROOT

SHIMS = Path(__file__).resolve().parent / "shims"
# What stands for a parameter of a path whose description has no example that fits; {words} are kept by earlier cases.
PLACES = [
    (r"/v1/receipts/", "id", "NgAVBsR2QAABAjXkqyfJ0sWqYcV2m3rD"), (r"/v1/notifications/", "id", "{notification}"), (r"/v1/users/", "id", "ali"), (r"/v1/devices/", "id", "phone-1"),
    (r"/segments/", "name", "readers"), (r"/webhook/", "name", "chabok"), (r"/webhook/", "secret", "{webhook}"), (r"/channels", "name", "ios"),
    (r"/channels", "channel", "{channel}"), (r"/topics|/tokens", "name", "android"), (r"/topics", "topic", "news"),
    (r"/clear$", "name", "crm"), (r"/messages", "name", "chabok"), (r"/receipts", "name", "huawei"), (r"/clicks", "name", "chabok"),
    (r"/(move|drop)$", "name", "gone"), (r".", "name", "ios"), (r".", "app", "shop"), (r".", "version", "1.3.2"),
]


def pages():
    """The documents, in the order in which their commands are run."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs/platforms").glob("*.md"))]


def blocks(page):
    """The fenced blocks of a page: info string and text, without the margin of a list."""
    found = re.findall(r"^( *)```([^\n]+)\n(.*?)^ *```$", page.read_text(), re.M | re.S)
    return [(info.strip(), re.sub(rf"^{margin}", "", body, flags=re.M)) for margin, info, body in found]


def commands(text):
    """The commands of a block, in which what they print begins with `#`; a quotation or a `\\` carries a command on to the next line."""
    result, is_open = [], False
    for line in text.splitlines():
        if is_open:
            result[-1] += "\n" + line
        elif line and not line.startswith("#"):
            result.append(line)
        else:
            continue
        is_open = result[-1].endswith("\\") or result[-1].count("'") % 2 == 1
    return result


def shown(gateway, folder):
    """Runs what the documents do with curl; gives each request with its answer, in order."""
    log = folder / "requests.jsonl"
    log.write_text("")
    path = f"{SHIMS}:{folder}:{os.environ['PATH']}"
    (folder / "chapar").symlink_to(CHAPAR)
    for page in pages():
        for info, text in blocks(page):
            if not info.startswith("sh run") or "curl" not in text:
                continue
            environment = {name: value for name, value in os.environ.items() if not name.startswith("CHAPAR_")}
            environment |= {"PATH": path, "NO_PROXY": "*", "CHAPAR_KEY": gateway.keys["admin"], "CONTRACT_LOG": str(log),
                            "CONTRACT_PAGE": str(page.relative_to(ROOT)), "CONTRACT_URL": gateway.url}
            script = "\n".join(commands(text)).replace("8080", str(gateway.port))
            done = subprocess.run(["bash"], input=script, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
            if "curl:" in done.stderr:
                raise RuntimeError(f"{page.relative_to(ROOT)}: {done.stderr}")
    return [json.loads(line) for line in log.read_text().splitlines()]


def http_blocks():
    """Requests that pages show as a method, a path and a body."""
    for page in pages():
        for info, text in blocks(page):
            if info == "http":
                request, _, body = text.partition("\n")
                case = {"case": f"{page.relative_to(ROOT)}: {request}", "request": request}
                yield case | ({"body": json.loads(body)} if body.strip() else {})


def description():
    """Every example of the OpenAPI description: one case for each body, and for each operation without one."""
    document = json.loads((ROOT / "Sources/ChaparServer/OpenAPI/openapi.json").read_text())
    for path, item in document["paths"].items():
        for method, operation in item.items():
            if method != "parameters":
                yield from operation_examples(path, method, operation, item.get("parameters", []) + operation.get("parameters", []))


def operation_examples(path, method, operation, parameters):
    """The cases of one operation: the first with the examples of its header fields, one more with those of its query."""
    target = re.sub(r"\{(\w+)\}", lambda found: place(path, found[1]), path)
    headers = {one["name"]: str(one["example"]) for one in parameters if one["in"] == "header" and "example" in one}
    query = "&".join(f"{one['name']}={one['example']}" for one in parameters if one["in"] == "query" and "example" in one)
    first = {"case": operation["operationId"], "request": f"{method.upper()} {target}"}
    bodies = []
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        named = {name: one["value"] for name, one in content.get("examples", {}).items()} or {"": content.get("example")}
        bodies += [(kind, name, body) for name, body in named.items()]
    if "text/event-stream" in operation["responses"].get("200", {}).get("content", {}):
        first["streams"] = True
    for number, (kind, name, body) in enumerate(bodies or [(None, "", None)]):
        case = dict(first)
        case["case"] += f": {name}" * bool(name) + f" as {kind}" * (kind not in (None, "application/json"))
        own = {**(headers if number == 0 else {}), **({"Content-Type": kind} if kind not in (None, "application/json") else {})}
        yield case | ({"headers": own} if own else {}) | ({"body": body} if body is not None else {})
    if query:
        case = {**first, "case": f"{first['case']} with its examples", "request": f"{first['request']}?{query}"}
        yield case | ({"body": bodies[0][2]} if bodies else {})


def place(path, name):
    """What stands for a parameter of a path."""
    return next(value for pattern, key, value in PLACES if key == name and re.search(pattern, path))


def expected():
    """The cases that must be recorded, by their group."""
    first = ("putDevice", "addVersion")  # What others need.
    cases = sorted(description(), key=lambda case: (case["request"].startswith("DELETE"), not case["case"].startswith(first)))
    return {"openapi": cases, "http": list(http_blocks())}
