"""Requests with boundary values: every parameter of the OpenAPI description, every corpus, and identifiers that the gateway gave."""
import itertools
import json
import re
import sys
from pathlib import Path

import values

ROOT = Path(__file__).resolve().parents[2]
CONTRACT = ROOT / "Tests/Contract"
sys.path.append(str(CONTRACT))
import documents  # noqa: E402

COMMON_HEADERS = ("Content-Type", "Authorization", "X-Forwarded-For", "Accept-Language", "If-None-Match", "X-HUAWEI-CALLBACK-ID", "Expect")
DEPTH = 5  # How deep a schema's fields are followed.
SLOW = re.compile(r"subscription|/tags|/events|/switch|/topics|/channels|/tokens/|/messages/|platform=|/users/|announcements|wait=")


class Call:
    """A request: its bytes are made when it is sent."""

    def __init__(self, operation, method, target, headers=(), body=None, slot="", raw=None):
        self.operation, self.method, self.target, self.headers, self.body, self.slot = operation, method, target, list(headers), body, slot
        self.raw = raw

    @property
    def limit(self):
        """Seconds within which an answer must come; a platform may be asked while the caller waits."""
        return 45 if SLOW.search(self.target) else 10

    def text(self):
        """The request as it goes out, but for Host and Authorization."""
        if self.raw is not None:
            return self.raw.decode("latin-1")
        head = f"{self.method} {self.target}\n" + "".join(f"{name}: {value}\n" for name, value in self.headers)
        return head + "\n" + (self.body or b"").decode("utf-8", "backslashreplace")


class Description:
    """The operations of the OpenAPI description, with examples of theirs to start from."""

    def __init__(self, names):
        self.names = names
        self.document = json.loads((ROOT / "Sources/ChaparServer/OpenAPI/openapi.json").read_text())
        self.bodies = self.recorded_bodies()
        self.operations = []
        self.left = 0  # Of the single values of slots that were not sent yet.
        for path, item in self.document["paths"].items():
            for method, operation in item.items():
                if method != "parameters":
                    self.operations.append(Operation(self, path, method.upper(), operation, item.get("parameters", [])))

    def recorded_bodies(self):
        """The bodies of the contract's requests, by method and shape of the path."""
        found = {}
        for name in ("api", "openapi", "apps", "errors", "docs"):
            for case in json.loads((CONTRACT / f"recordings/{name}.json").read_text()):
                if "body" in case and isinstance(case["body"], dict):
                    method, target = case["request"].split(" ", 1)
                    found.setdefault((method, shape_of(target)), []).append(case["body"])
        return found

    def resolved(self, schema):
        while isinstance(schema, dict) and "$ref" in schema:
            schema = self.document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
        return schema if isinstance(schema, dict) else {}

    def places(self, schema, place=(), depth=DEPTH):
        """The places of a schema's fields: names, and 0 for the first of a list."""
        schema = self.resolved(schema)
        if place:
            yield place
        if depth == 0:
            return
        for name, inner in schema.get("properties", {}).items():
            yield from self.places(inner, (*place, name), depth - 1)
        if "items" in schema:
            yield from self.places(schema["items"], (*place, 0), depth - 1)
        if isinstance(schema.get("additionalProperties"), dict):
            yield from self.places(schema["additionalProperties"], (*place, "ios-apns"), depth - 1)
        for word in ("anyOf", "oneOf", "allOf"):
            for inner in schema.get(word, []):
                yield from (one for one in self.places(inner, place, depth - 1) if one != place)


def shape_of(target):
    """A path with its parameters left out, so that an example is found again."""
    steps = target.split("?")[0].split("/")
    words = {"v1", "notifications", "batch", "devices", "events", "backends", "receipts", "invalidations", "move", "drop", "subscription", "tags", "operations",
             "users", "switch", "clear", "webhook", "clicks", "apps", "versions", "announcements", "reload", "keys", "topics", "subscribe", "unsubscribe",
             "lookup", "channels", "tokens", "import", "messages", "cancel", "deliveries"}
    return "/".join(step if step in words else "*" for step in steps)


def body_places(body, place=()):
    """The places of what a body has."""
    if place:
        yield place
    if isinstance(body, dict):
        for name, inner in body.items():
            yield from body_places(inner, (*place, name))
    elif isinstance(body, list):
        for number, inner in enumerate(body[:2]):
            yield from body_places(inner, (*place, number))


def with_value(body, place, value):
    """A body's JSON text with a text in the place of one of its values; what is missing on the way there is made."""
    mark = "\x00value\x00"
    body = json.loads(json.dumps(body)) if isinstance(body, (dict, list)) else {}
    at = body
    for step, following in zip(place, [*place[1:], None]):
        if isinstance(step, int) != isinstance(at, list):
            return None
        inner = mark if following is None else [] if isinstance(following, int) else {}
        if isinstance(at, list):
            step = min(step, len(at))
            if step == len(at):
                at.append(inner)
            elif not isinstance(at[step], (dict, list)):
                at[step] = inner
        elif not isinstance(at.get(step), (dict, list)):
            at[step] = inner
        if following is None:
            at[step] = mark
        at = at[step]
    return json.dumps(body, ensure_ascii=False).replace(json.dumps(mark), value).encode("utf-8", "surrogatepass")


class Operation:
    """An operation with the slots of its requests: each step, parameter, header and field that takes a value."""

    def __init__(self, description, path, method, operation, shared):
        self.description, self.path, self.method = description, path, method
        self.name = operation["operationId"]
        self.streams = "text/event-stream" in operation["responses"].get("200", {}).get("content", {})
        self.statuses = set(operation["responses"])
        parameters = shared + operation.get("parameters", [])
        self.parameters = {one["in"]: [] for one in parameters} | {"query": [], "header": []}
        for one in parameters:
            self.parameters[one["in"]].append(one["name"])
        content = operation.get("requestBody", {}).get("content", {})
        self.schema = next((one.get("schema") for one in content.values()), None)
        examples = [one["value"] for entry in content.values() for one in entry.get("examples", {}).values()]
        examples += [entry["example"] for entry in content.values() if "example" in entry]
        examples += description.bodies.get((method, shape_of(path.replace("{", "").replace("}", ""))), [])
        self.bodies = [body for number, body in enumerate(examples) if body not in examples[:number]] or ([{}] if content else [None])

    def slots(self):
        """Every slot with its kind."""
        yield from (("path", name) for name in re.findall(r"\{(\w+)\}", self.path))
        yield from (("query", name) for name in self.parameters["query"])
        common = COMMON_HEADERS if self.name in ("sendNotification", "listDevices", "versionsAsJSON", "takeReceipts", "streamEvents") else ()
        yield from (("header", name) for name in (*self.parameters["header"], *common))
        if self.schema is None:
            return
        places = set(self.description.places(self.schema))
        for body in self.bodies:
            places |= set(body_places(body))
        yield ("body", ())
        yield from (("body", place) for place in sorted(places, key=str))

    def call(self, random, chosen):
        """A request with values in some slots: pairs of a slot and its value."""
        path, query, headers = self.path, [], []
        body = random.choice(self.bodies)
        text = json.dumps(self.filled(body), ensure_ascii=False).encode() if body is not None else None
        for (kind, name), value in chosen:
            if kind == "path":
                path = path.replace("{" + name + "}", value)
            elif kind == "query":
                query.append(f"{name}={value}")
            elif kind == "header":
                headers.append((name, value))
            elif name == ():
                text = value.encode("utf-8", "surrogatepass")
            else:
                fits = [one for one in self.bodies if reaches(one, name[:1])] or self.bodies
                text = with_value(self.filled(random.choice(fits)), name, value) or text
        path = re.sub(r"\{(\w+)\}", lambda found: self.filled(documents.place(self.path, found[1])), path)
        target = path + ("?" + "&".join(query) if query else "")
        slot = " ".join(f"{kind}:{name}" for (kind, name), _ in chosen)
        return Call(self, self.method, target, headers, text, slot)

    def filled(self, value):
        """A body or text of the contract with identifiers of this gateway in the place of {names}."""
        if isinstance(value, str):
            return re.sub(r"\{(\w+)\}", lambda found: str(self.description.names.get(found[1], self.description.names["notification"])), value)
        if isinstance(value, dict):
            return {key: self.filled(inner) for key, inner in value.items()}
        return [self.filled(inner) for inner in value] if isinstance(value, list) else value


def reaches(body, place):
    return isinstance(body, dict) and bool(place) and place[0] in body


def systematic(description, random):
    """Every slot with every boundary value once, the sharpest first, in an order drawn from the seed; then several slots at a time, for ever."""
    kinds = {"path": values.address_values(), "query": values.address_values(), "header": values.header_values(), "body": values.json_values()}
    own = description.names.get("own", [])
    sharp, others = [], []
    for operation in description.operations:
        for slot in operation.slots():
            first = [*values.SHARP, *own]
            first = [*first, *(json.dumps(text) for text in first)] if slot[0] == "body" else first
            sharp += [(operation, slot, value) for value in first]
            others += [(operation, slot, value) for value in kinds[slot[0]] if value not in first]
    sharpest = [one for one in sharp if one[1][0] in ("path", "query") and one[2] in values.SHARP[-4:]]
    description.left = len(sharpest) + len(sharp) + len(others)
    for singles in (sharpest, sharp, others):
        random.shuffle(singles)
        for operation, slot, value in singles:
            description.left -= 1
            yield operation.call(random, [(slot, value)])
    while True:
        operation = random.choice(description.operations)
        slots = list(operation.slots())
        chosen = random.sample(slots, min(len(slots), random.choice((2, 2, 3, 4))))
        yield operation.call(random, [(slot, random.choice(kinds[slot[0]])) for slot in chosen])


def corpora(description, random):
    """Every corpus entry where it fits: bodies at their routes, cursors, heads as they are; then bent."""
    by_name = {operation.name: operation for operation in description.operations}
    bodies = {"request": ["sendNotification", "sendBatch"], "receipt": ["takeReceipts", "takeWebhook"], "click": ["takeClick"],
              "json": ["sendNotification", "putDevice", "putDevices", "takeClick", "reportEvent", "setSubscription"]}
    entries = [(by_name[name], entry) for corpus, names in bodies.items() for entry in values.corpus(corpus) for name in names]
    raw = [entry for name in ("http1", "connect") for entry in values.corpus(name)]
    first = True
    while True:
        random.shuffle(entries)
        for operation, entry in entries:
            call = operation.call(random, [])
            call.body, call.slot = entry if first else bent(entry, random), "corpus"
            yield call
        for entry in raw:
            yield Call(None, "GET", "/", slot="head", raw=entry if first else bent(entry, random))
        first = False


def bent(entry, random):
    """An input with a piece cut, doubled or changed."""
    data = bytearray(entry)
    for _ in range(random.choice((1, 1, 2, 4))):
        if not data:
            break
        start = random.randrange(len(data))
        end = min(len(data), start + random.choice((1, 1, 2, 8)))
        choice = random.randrange(4)
        if choice == 0:
            del data[start:end]
        elif choice == 1:
            data[start:start] = data[start:end]
        elif choice == 2:
            data[start] = random.choice((0, 0xFF, 0x22, 0x5C, 0x7B, 0x2D, 0x39, random.randrange(256)))
        else:
            data[start:end] = str(random.choice(values.EDGES)).encode()
    return bytes(data)


def messages(uuids):
    """A phone's reports about genuine ids of messages with the tails bent: the first half of an id is in every push."""
    tails = ["ffff-ffffffffffff", "0000-000000000000", "8000-000000000000", "7fff-ffffffffffff", "4000-000000000000", "3fff-ffffffffffff", "bfff-ffffffffffff"]
    reports = []
    for uuid, tail in itertools.product(uuids[:4], tails):
        forged = uuid[:19] + tail
        for payload in ({"chapar_id": forged}, {"data": {"chapar_id": forged}}):
            reports.append({"event": "opened", "payload": payload})
        reports += [{"event": event, "notification": forged, "delivery": 0} for event in ("opened", "delivered")]
    reports += [{"event": "opened", "notification": one} for one in values.IDENTIFIERS]
    reports += [{"event": "opened", "notification": "{notification}", "delivery": number} for number in values.EDGES]
    return reports
