"""What of an answer is contract: its fields with their JSON types, and the words of closed vocabularies."""
import json
import re

# Fields whose value is part of the contract where it is a short word: states, codes, types, places, units.
WORDS = {
    "action", "code", "event", "exact", "format", "kind", "message_storage", "outcome", "platform", "pointer", "reason", "result",
    "retryable", "scope", "scopes", "service", "state", "status", "type", "unit", "forwarding",
}
SHORT = re.compile(r"[\w .:/#~*+,()-]{0,120}")
# What differs from run to run within words and headers.
CHANGING = [
    (re.compile(r"\b[0-7][0-9A-HJKMNP-TV-Z]{12}\b"), "{id}"),
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", re.I), "{uuid}"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "{time}"),
    (re.compile(r"\b1[789]\d{8}(\d{3})?\b"), "{seconds}"),
    (re.compile(r"\b[0-9a-f]{64}\b"), "{hash}"),
    (re.compile(r"(?<=/channels/)[^/?]+"), "{channel}"),
]
LEFT_OUT = {"date", "content-length", "connection", "keep-alive", "transfer-encoding"}


def settled(text):
    """A text without what differs from run to run."""
    for pattern, word in CHANGING:
        text = pattern.sub(word, text)
    return text


def shape(value, name=""):
    """A JSON value with types in the place of values: a list has one element, which stands for all."""
    if isinstance(value, dict) and name == "series":
        return {key: ["null|number"] for key in value}  # Depends on the moment: minutes are stored after they end.
    if isinstance(value, dict):
        return {settled(key): shape(inner, key) for key, inner in value.items()}
    if isinstance(value, list):
        elements = [shape(inner, name) for inner in value]
        merged = elements[:1]
        for element in elements[1:]:
            merged = [merge(merged[0], element)]
        return merged
    if name == "oldest_age":
        return "null|number"  # Depends on the moment.
    if value is None:
        return "null"
    if name in WORDS and isinstance(value, (bool, int)):
        return "=" + json.dumps(value)
    if name in WORDS and isinstance(value, str) and SHORT.fullmatch(value):
        return "=" + settled(value)
    return {bool: "boolean", str: "string"}.get(type(value), "number")


def merge(one, other):
    """What either of two shapes may be; a field that only one has gets a question mark."""
    if one == other:
        return one
    if isinstance(one, dict) and isinstance(other, dict):
        names = {}
        for side in (one, other):
            for key in side:
                names.setdefault(key.rstrip("?"), []).append(key)
        merged = {}
        for name, keys in names.items():
            found = [side[key] for side in (one, other) for key in set(keys) if key in side]
            optional = len(found) < 2 or any(key.endswith("?") for key in keys)
            merged[name + "?" * optional] = merge(*found) if len(found) == 2 else found[0]
        return dict(sorted(merged.items()))
    if isinstance(one, list) and isinstance(other, list):
        return [merge(one[0], other[0])] if one and other else one or other
    if isinstance(one, str) and isinstance(other, str):
        return "|".join(sorted(set(one.split("|")) | set(other.split("|"))))
    return {"any of": sorted(({json.dumps(one, sort_keys=True), json.dumps(other, sort_keys=True)}))}


def headers(answer):
    """The header fields of an answer that are contract, their numbers left out."""
    kept = {}
    for name, value in answer.headers:
        if name.lower() not in LEFT_OUT:
            value = re.sub(r'"[^"]*"', '"…"', value) if name.lower() == "etag" else settled(value)
            kept[name.lower()] = "{time}" if name.lower() == "last-modified" else value
    return dict(sorted(kept.items()))


def recorded(answer, reads=None):
    """An answer as it is recorded: status, header fields, and the body's shape or text; of metrics, events and the description what
    `reads` names, since they depend on what has happened."""
    kind = (answer.header("content-type") or "").split(";")[0]
    result = {"status": answer.status, "headers": headers(answer)}
    if not answer.body:
        return result
    if reads:
        result[reads] = READERS[reads](answer.text)
    elif kind.endswith("json"):
        document = json.loads(answer.body)
        if "openapi" not in document:
            result["body"] = shape(document)
    elif kind == "text/html":
        result["title"] = re.search(r"<title>(.*?)</title>", answer.text, re.S)[1]
    elif kind == "text/plain" and not answer.text.startswith("# "):
        result["lines"] = settled(answer.text).splitlines()[:40]
    return result


def metrics(text):
    """Chapar's metrics, and the process's: each with its type and the names of its labels. Libraries' own are none of the contract."""
    found, types = {}, dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M))
    for name, labels in re.findall(r"^([a-z_]+)(?:\{(.*?)\})? ", text, re.M):
        family = name if name in types else re.sub(r"_(bucket|sum|count)$", "", name)
        if family.startswith(("chapar_", "process_")):
            row = found.setdefault(family, {"type": types.get(family, "none"), "labels": set()})
            row["labels"] |= set(re.findall(r'(\w+)="', labels)) - {"le"}
    return {name: {**row, "labels": sorted(row["labels"])} for name, row in sorted(found.items())}


def events(text):
    """The types of a stream's events, each with the shape of its data."""
    found = {}
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line and not line.startswith(":"))
        if "event" in fields and "data" in fields:
            name, data = fields["event"], shape(json.loads(fields["data"]))
            found[name] = merge(found[name], data) if name in found else data
    return dict(sorted(found.items()))


def description(text):
    """The OpenAPI description as a table: each operation's parameters, bodies and answers, each schema's fields."""
    document, table = json.loads(text), {}
    for path, item in document["paths"].items():
        for method, operation in item.items():
            if method == "parameters":
                continue
            place = f"{method.upper()} {path}"
            parameters = item.get("parameters", []) + operation.get("parameters", [])
            table[place] = {
                "parameters": {f"{one['in']} {one['name']}": one.get("required", False) for one in parameters},
                "takes": {kind: fields(content.get("schema", {})) for kind, content in
                          operation.get("requestBody", {}).get("content", {}).items()},
                "answers": {status: described(answer) for status, answer in operation["responses"].items()},
            }
    for name, schema in document["components"]["schemas"].items():
        table[f"schema {name}"] = fields(schema)
    return table


def described(answer):
    """The fields of an answer's body, by content type; of one that several operations share its name."""
    if "$ref" in answer:
        return answer["$ref"].rsplit("/", 1)[1]
    return {kind: fields(content.get("schema", {})) for kind, content in answer.get("content", {}).items()}


def fields(schema):
    """A schema's fields with their types and closed vocabularies; a reference by its name."""
    if schema is True or schema is False:
        return schema
    if "$ref" in schema:
        return schema["$ref"].rsplit("/", 1)[1]
    if "properties" in schema:
        required = set(schema.get("required", []))
        return {name + ("" if name in required else "?"): fields(inner) for name, inner in schema["properties"].items()}
    if "items" in schema:
        return [fields(schema["items"])]
    for word in ("anyOf", "oneOf", "allOf"):
        if word in schema:
            return {word: [fields(inner) for inner in schema[word]]}
    if "enum" in schema:
        return "=" + "|=".join(map(json.dumps, schema["enum"]))
    kind = schema.get("type", "any")
    return "|".join(kind) if isinstance(kind, list) else kind


READERS = {"metrics": metrics, "events": events, "description": description}


def flat(value, place=""):
    """Every leaf of a recorded answer by its place."""
    if isinstance(value, dict) and value:
        return {key: leaf for name, inner in value.items() for key, leaf in flat(inner, f"{place}.{name}" if place else name).items()}
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], (dict, list, str)):
        return flat(value[0], place + "[]")
    return {place: value}
