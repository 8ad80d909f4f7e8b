#!/usr/bin/env python3
"""Measures the search in a store of 10,000 notifications, and in one of 10 million.

usage: bench.py [--chapar BINARY] [--notifications N] [--lookups N] [--folder DIR] [--json FILE]

The small store is made through the gateway: five rounds of 2,000 notifications, in each one to each of 1,900 devices, one to
each of 50 users with two devices, and one to each of 50 dead tokens. The large one has the rows of the small one, and copies of them:
each copy has its own time, ids and references, and its five rounds are to devices and users of five other copies. So a device or
a user has five messages in both stores, and in the large one they are spread over six days. Archived blocks, rows, the index of keys and that of bad ends
are copied; the log of events is not, since no search reads it.

Both gateways run at the same time and are asked by turns, about other keys each time. Goals:

pages      first page by user, device, reference, id and bad end: median at most 3 times that of the small store, p99 too, or 10 ms
filters    any other filter: at most 100,000 deliveries read and 200 of slack, then a cursor; at most 2 s of CPU
memory     resident memory of the large one's gateway: at most 32 MiB above that of the small one's, after the pages and at its peak
bytes      on disk a finished delivery of the small store, with its events and all keys of the search: at most 1.3 times 141, what one to a bare token takes
"""
import argparse
import contextlib
import http.client
import json
import math
import os
import random
import shutil
import sqlite3
import statistics
import sys
import tempfile
import time
import urllib.parse
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gateway"))
from rig import Rig, judge, token  # noqa: E402

SMALL = 10_000
ROUNDS = 5
A_ROUND = SMALL // ROUNDS
PAIRS, DEAD = 50, 50  # Of a round: messages to users with two devices, and to dead tokens.
PEOPLE = A_ROUND - DEAD  # Users.
DELIVERIES = SMALL + ROUNDS * PAIRS
BATCH = 500
MARK = b"QZQZQ"  # Stands for the copy in names: with D for devices and users, with R for references.
BITS_OF_BUCKET = 45
STEP_MS = 1 << 19  # Copies are a multiple of this apart, so that only the highest three bytes of an id change.
SPAN_MS = 6 * 86_400_000
LIMIT = 100_000  # Deliveries that a request reads.


# Names


def name(kind, mark, number):
    return f"{kind}{mark.decode()}-{number:05d}"


def device(number, mark=MARK + b"D"):
    return name("phone-", mark, number)


def user(number, mark=MARK + b"D"):
    return name("user-", mark, number)


def reference(number, mark=MARK + b"R"):
    return name("order-", mark, number)


def marks(copy, copies, turn):
    """The texts that replace the mark of devices and users, and that of references, in a round of a copy."""
    return b"%06d" % ((copy + turn * copies // ROUNDS) % copies), b"%06d" % copy


# The small store, through the gateway


def add_devices(gateway):
    lines = []
    for number in range(PEOPLE):
        devices = [number] + ([PEOPLE + number] if number < PAIRS else [])
        lines += [{"id": device(one), "user": user(number), "tokens": {"ios-apns": f"{one:064x}"}} for one in devices]
    for one in lines:
        put(gateway, f"/v1/devices/{urllib.parse.quote(one.pop('id'))}", one)


def send(gateway):
    """Sends the rounds; gives how long it took."""
    started = time.perf_counter()
    for turn in range(ROUNDS):
        batch = []
        for number in range(A_ROUND):
            if number < PEOPLE:
                to = {"users": [user(number)]} if number < PAIRS else {"devices": [device(number)]}
            else:
                to = {"tokens": [{"token": "0410" + f"{turn * A_ROUND + number:060x}", "service": "ios-apns"}]}
            batch.append({"to": to, "reference": reference(turn * A_ROUND + number),
                          "content": {"title": f"Order {number}", "body": "Your parcel left the depot and arrives tomorrow.",
                                      "sound": "default", "badge": 1, "data": {"order": f"A-{number}"}}})
            if len(batch) == BATCH:
                gateway.post("/v1/notifications/batch", {"notifications": batch})
                batch = []
        # Rounds share no block of the archive.
        gateway.come_to_rest()
    return time.perf_counter() - started


def put(gateway, path, body):
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=30)
    connection.request("PUT", path, json.dumps(body), {"content-type": "application/json", **gateway.headers})
    answer = connection.getresponse()
    if answer.status >= 300:
        raise SystemExit(f"{path}: {answer.status} {answer.read(500).decode()}")
    answer.read()
    connection.close()


def used(database):
    """The bytes of a store's pages, without free ones."""
    with contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as db:
        pages, free, size = (db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size"))
    return (pages - free) * size


# The large store, by copies


class Block:
    """A packed block of the archive, cut where copies differ: at the highest bytes of ids, and at marks."""

    def __init__(self, row):
        _, self.first, self.last, self.at, packed = row
        self.ids = whole_events(packed)
        if self.first >> 40 != self.last >> 40:
            raise SystemExit("the small store lies on both sides of a step of time: run it again")
        for place in self.ids:
            assert int.from_bytes(packed[place:place + 8], "little") >> 40 == self.first >> 40
        self.packed = packed

    def copied(self, delta, of_devices, of_references):
        packed = bytearray(self.packed)
        high = ((self.first + delta) >> 40).to_bytes(3, "little")
        for place in self.ids:
            packed[place + 5:place + 8] = high
        packed = bytes(packed).replace(MARK + b"D", of_devices).replace(MARK + b"R", of_references)
        return self.first + delta, self.last + delta, self.at + (delta >> 21), packed


def whole_events(packed):
    """Where the events begin that a block holds with all of their bytes: EventPacking.swift has the form."""
    assert packed[:4] == b"\xff\xff\xff\xff"
    place, found = 4, []

    def number():
        nonlocal place
        value = shift = 0
        while True:
            byte = packed[place]
            place += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while place < len(packed):
        length, distance = number(), number()
        if distance == 0:
            found.append(place)
            place += length
            continue
        index = 0
        while index < length:
            index += number()
            if index < length:
                different = number()
                if index < 8 and index + different > 5:
                    raise SystemExit("a block has ids of two steps of time: run it again")
                index, place = index + different, place + different
    return found


PRIME, START, MASK = 0x100000001B3, 0xCBF29CE484222325, (1 << 64) - 1


def fnv(text, value=START):
    for byte in text:
        value = (value ^ byte) * PRIME & MASK
    return value


def hashes(kind, prefix, mark, count):
    """The hashes of the index for the names with the numbers below `count`: SearchKey.swift has the form."""
    level = [fnv(b"-", fnv(mark, fnv(kind + prefix)))]
    for rest in (10_000, 1_000, 100, 10, 1):
        level = [(value ^ digit) * PRIME & MASK for value in level for digit in b"0123456789"][:math.ceil(count / rest)]
    return [value - (1 << 64) if value >> 63 else value for value in level]


def copy(source, target, copies, report):
    """Makes `target` of `source` and of `copies` copies of its rows, older ones first."""
    shutil.copyfile(source, target)
    db = sqlite3.connect(target, isolation_level=None)
    db.execute("PRAGMA journal_mode = OFF")
    db.execute("PRAGMA synchronous = OFF")
    db.execute("PRAGMA cache_size = -400000")
    blocks = [Block(row) for row in db.execute("SELECT number, first, last, at, packed FROM archive ORDER BY number")]
    columns = [row[1] for row in db.execute("PRAGMA table_info(deliveries)")]
    rows = [dict(zip(columns, row)) for row in db.execute("SELECT * FROM deliveries ORDER BY id")]
    keys = [((bucket << BITS_OF_BUCKET) | place, value) for bucket, value, place in
            db.execute("SELECT bucket, hash, place FROM search_keys ORDER BY bucket, place")]
    ends = [row[0] for row in db.execute("SELECT id FROM search_ends")]
    # Which name a key of the small store is of: kind and number.
    kinds = {"d": (b"d", b"phone-", PEOPLE + PAIRS, b"D"), "u": (b"u", b"user-", PEOPLE, b"D"), "r": (b"r", b"order-", SMALL, b"R")}
    names = {}
    for kind, (letter, prefix, count, mark) in kinds.items():
        for number, value in enumerate(hashes(letter, prefix, MARK + mark, count)):
            names[value] = (kind, number)
    keys = [(id, *names[value]) for id, value in keys]
    # When each round ended: what is behind it is of the next.
    firsts = sorted(block.first for block in blocks) + [row["id"] for row in rows]
    turn_of = rounds([id for id, kind, _ in keys if kind == "r"])
    stride = max(1, SPAN_MS // STEP_MS // max(1, copies)) * STEP_MS
    assert firsts and stride << 21 >> 40 > 0
    # Numbers of blocks follow the time, which the store counts on.
    newest = db.execute("SELECT max(number) FROM archive").fetchone()[0]
    db.execute("UPDATE archive SET number = number + ?", (copies * len(blocks) + newest,))
    insert_row = f"INSERT INTO deliveries ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
    number, begun = 0, time.perf_counter()
    db.execute("BEGIN")
    for copied in range(copies):
        delta_ms = -(copies - copied) * stride
        delta = delta_ms << 21
        of_turn = [marks(copied, copies, turn) for turn in range(ROUNDS)]
        found = []
        for block in blocks:
            number += 1
            found.append((number, *block.copied(delta, *of_turn[turn_of(block.first)])))
        db.executemany("INSERT INTO archive (number, first, last, at, packed) VALUES (?, ?, ?, ?, ?)", found)
        db.executemany(insert_row, [[changed(row, column, delta, delta_ms, *of_turn[turn_of(row["id"])]) for column in columns]
                                    for row in rows])
        tables = [{kind: hashes(letter, prefix, of[0] if mark == b"D" else of[1], count)
                   for kind, (letter, prefix, count, mark) in kinds.items() if kind != "r"} for of in of_turn]
        references = hashes(b"r", b"order-", of_turn[0][1], SMALL)
        db.executemany("INSERT INTO search_keys (bucket, hash, place) VALUES (?, ?, ?)", [
            ((id + delta) >> BITS_OF_BUCKET, references[one] if kind == "r" else tables[turn_of(id)][kind][one],
             (id + delta) & ((1 << BITS_OF_BUCKET) - 1)) for id, kind, one in keys])
        db.executemany("INSERT INTO search_ends (id) VALUES (?)", [(id + delta,) for id in ends])
        if time.perf_counter() - report.get("said", begun) > 30:
            report["said"] = time.perf_counter()
            print(f"  {copied + 1} of {copies} copies after {time.perf_counter() - begun:.0f} s", file=sys.stderr, flush=True)
    db.execute("COMMIT")
    db.close()
    return time.perf_counter() - begun


def rounds(ids):
    """A function from an id to its round: each has the same number of notifications."""
    ids = sorted(ids)
    starts = [ids[turn * A_ROUND] for turn in range(ROUNDS)]
    return lambda id: max(0, sum(start <= id for start in starts) - 1)


def changed(row, column, delta, delta_ms, of_devices, of_references):
    value = row[column]
    if value is None:
        return None
    if column in ("id", "head"):
        return value + delta
    if column in ("due", "expires", "changed", "scheduled"):
        return value + delta_ms
    if column == "recipient":
        return value.replace((MARK + b"D").decode(), of_devices.decode())
    if column == "record":
        return value.replace(MARK + b"D", of_devices).replace(MARK + b"R", of_references)
    return value


# Asking


class Asker:
    """One connection to a gateway that is kept."""

    def __init__(self, gateway, copies):
        self.gateway, self.copies = gateway, copies
        self.connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=120)

    def get(self, path):
        started = time.perf_counter()
        self.connection.request("GET", path)
        answer = self.connection.getresponse()
        body = answer.read()
        seconds = time.perf_counter() - started
        if answer.status != 200:
            raise SystemExit(f"{path}: {answer.status} {body[:500].decode()}")
        return seconds, json.loads(body)

    def marks(self, chance):
        """Those of any copy: of its devices, and of its references."""
        if self.copies == 0:
            return MARK + b"D", MARK + b"R"
        copied = chance.randrange(self.copies)
        return marks(copied, self.copies, 0)


def pages(askers, lookups, chance):
    """Latencies of first pages: by what, for each store, in seconds, with how much was found."""
    kinds = ("user", "device", "reference", "id", "failed")
    times = {kind: [[] for _ in askers] for kind in kinds}
    found = {kind: [[] for _ in askers] for kind in kinds}
    warm = max(5, lookups // 10)
    for turn in range(lookups + warm):
        for place, asker in enumerate(askers):
            of_devices, of_references = asker.marks(chance)
            number, order = chance.randrange(PAIRS, PEOPLE), chance.randrange(SMALL)
            _, page = asker.get(f"/v1/deliveries?reference={reference(order, of_references)}")
            paths = {"user": f"user={user(number, of_devices)}", "device": f"device={device(number, of_devices)}",
                     "reference": f"reference={reference(chance.randrange(SMALL), of_references)}",
                     "id": f"id={page['items'][0]['notification']}", "failed": "state=failed"}
            for kind, query in paths.items():
                seconds, page = asker.get(f"/v1/deliveries?{query}")
                if turn >= warm:
                    times[kind][place].append(seconds)
                    found[kind][place].append(len(page["items"]))
    results = []
    for kind in kinds:
        medians = [statistics.median(one) * 1e3 for one in times[kind]]
        tails = [sorted(one)[math.ceil(0.99 * len(one)) - 1] * 1e3 for one in times[kind]]
        results.append({"part": "pages", "by": kind, "small_ms": round(medians[0], 2), "large_ms": round(medians[1], 2),
                        "ratio": round(medians[1] / medians[0], 2), "small_p99_ms": round(tails[0], 2),
                        "large_p99_ms": round(tails[1], 2), "found": [round(statistics.mean(one), 2) for one in found[kind]]})
    return results


def filters(asker, database):
    """What a request reads with each filter that finds little or nothing, and what it says of it."""
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 6.9 * 86_400))
    results = []
    queries = {
        "state": f"state=retrying&since={since}", "backend": f"backend=none&since={since}", "reason": f"reason=None&since={since}",
        "app": f"app=default&state=retrying&since={since}", "segment": f"segment=none&since={since}",
        "collapse_id": f"collapse_id=none&since={since}", "key": f"key=none&since={since}", "dead": "dead=true",
    }
    paths = {name: f"/v1/deliveries?{query}" for name, query in queries.items()}
    paths["notifications"] = f"/v1/notifications?state=retrying&since={since}"
    paths["counts"] = f"/v1/deliveries/counts?state=accepted_by_platform&since={since}"
    paths["notification counts"] = f"/v1/notifications/counts?since={since}"
    for name, path in paths.items():
        cpu = asker.gateway.cpu
        try:
            seconds, page = asker.get(path)
        except SystemExit as refusal:  # A filter that names what is not there may be refused.
            results.append({"part": "filters", "by": name, "refused": str(refusal)[:200]})
            continue
        results.append({"part": "filters", "by": name, "seconds": round(seconds, 3),
                        "cpu_s": round(asker.gateway.cpu - cpu, 2), "has_cursor": page["next"] is not None,
                        "looked_back_to": page.get("looked_back_to"), "read": read(database, name, page)})
    return results


def read(database, name, page):
    """How many deliveries lie between the newest and the page's cursor; of bad ends the number of those."""
    if page["next"] is None:
        return None
    below = decoded(page["next"].split("-")[0])
    db = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
    with contextlib.closing(db):
        if name == "dead":
            return db.execute("SELECT (SELECT count(*) FROM search_ends WHERE id >= ?1) + "
                              "(SELECT count(*) FROM deliveries WHERE state IN (4, 5, 7) AND id >= ?1)", (below,)).fetchone()[0]
        # Each delivery has a key: at least the reference of its notification, or its device.
        return db.execute("SELECT count(DISTINCT (bucket << 45) | place) FROM search_keys WHERE bucket > ?1 OR bucket = ?1 AND place >= ?2",
                          (below >> BITS_OF_BUCKET, below & ((1 << BITS_OF_BUCKET) - 1))).fetchone()[0]


def decoded(text):
    """The number of an id: Crockford's base 32."""
    value = 0
    for letter in text:
        value = value * 32 + "0123456789ABCDEFGHJKMNPQRSTVWXYZ".index(letter)
    return value


# All of it


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chapar", default=str(Path(__file__).resolve().parents[2] / ".build/release/chapar"))
    parser.add_argument("--notifications", type=int, default=10_000_000)
    parser.add_argument("--lookups", type=int, default=300)
    parser.add_argument("--folder", help="where the stores are kept, and found again; a temporary one by default")
    parser.add_argument("--json", help="write every figure there as well")
    arguments = parser.parse_args()
    results, chance = [], random.Random(46)
    copies = arguments.notifications // SMALL - 1
    with contextlib.ExitStack() as stack:
        folder = Path(arguments.folder or stack.enter_context(tempfile.TemporaryDirectory(prefix="chapar-bench-")))
        small = stack.enter_context(Rig(folder / "small", arguments.chapar))
        large = stack.enter_context(Rig(folder / "large", arguments.chapar))
        responder = stack.enter_context(small.responder(by_token=True))
        source, target = small.path("bench.db"), large.path("bench.db")
        if not Path(source).exists():
            with small.gateway(responder.port) as gateway:
                add_devices(gateway)
            before = used(source)
            with small.gateway(responder.port, fresh=False) as gateway:
                seconds = send(gateway)
            results.append({"part": "small", "seconds": round(seconds, 1),
                            "bytes_a_delivery": round((used(source) - before) / DELIVERIES, 1)})
            print(json.dumps(results[-1]), flush=True)
        if not Path(target).exists():
            before = used(source)
            seconds = copy(source, target, copies, {})
            results.append({"part": "copy", "notifications": (copies + 1) * SMALL, "seconds": round(seconds, 1),
                            "bytes_a_delivery": round((used(target) - before) / DELIVERIES / max(1, copies), 1)})
            print(json.dumps(results[-1]), flush=True)
        retention = ", retention: 2592000"
        gateways = [stack.enter_context(rig.gateway(responder.port, fresh=False, store=retention)) for rig in (small, large)]
        time.sleep(3)
        started = [round(gateway.memory(), 1) for gateway in gateways]
        askers = [Asker(gateways[0], 0), Asker(gateways[1], copies)]
        for result in pages(askers, arguments.lookups, chance):
            results.append(result)
            print(json.dumps(result), flush=True)
        after = [round(gateway.memory(), 1) for gateway in gateways]
        for result in filters(askers[1], target):
            results.append(result)
            print(json.dumps(result), flush=True)
        for asker in askers[:1]:
            filters(asker, source)
        peak = [round(gateway.memory("VmHWM"), 1) for gateway in gateways]
        results.append({"part": "memory", "start_s": [round(gateway.started_in, 2) for gateway in gateways], "at_start_mib": started,
                        "after_pages_mib": after, "peak_mib": peak})
        print(json.dumps(results[-1]), flush=True)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(results, indent=2))
    judge([verdict for result in results for verdict in verdicts(result)])


def verdicts(result):
    """The goals that a part missed."""
    if result["part"] == "pages":
        if result["ratio"] > 3:
            yield f"by {result['by']}: {result['ratio']} times the small store's, at most 3"
        if result["large_p99_ms"] > max(10, 3 * result["small_p99_ms"]):
            yield f"by {result['by']}: p99 {result['large_p99_ms']} ms, at most 3 times {result['small_p99_ms']}"
        # Those to two devices are drawn by chance.
        if abs(result["found"][0] - result["found"][1]) > 0.2:
            yield f"by {result['by']}: {result['found']} found"
    elif result["part"] == "filters" and "seconds" in result:
        if result["read"] is not None and result["read"] > LIMIT + 200:
            yield f"by {result['by']}: {result['read']} read, at most {LIMIT}"
        if result["cpu_s"] > 2:
            yield f"by {result['by']}: {result['cpu_s']} s of CPU, at most 2"
    elif result["part"] == "small":
        if result["bytes_a_delivery"] > 1.3 * 141:
            yield f"{result['bytes_a_delivery']} bytes a delivery, at most {1.3 * 141:.0f}"
    elif result["part"] == "memory":
        for moment in ("after_pages_mib", "peak_mib"):
            if result[moment][1] > result[moment][0] + 32:
                yield f"memory: {result[moment][1]} MiB, at most 32 above {result[moment][0]}"


if __name__ == "__main__":
    main()
