#!/usr/bin/env python3
"""Prints where the instructions of a notification go: by stage of its way, and by kind of work, counted by callgrind.

usage: bench.py [--chapar BINARY] [--against BINARY] [--only NAME ...] [--postgres] [--keep FOLDER]

The parts and runs are those of `Benchmarks/run instructions`. A stage is a part of the program, told by the module of a function's
name, so the binaries must not be stripped. What a stage has the Swift runtime and the C library do (reference counts, memory, copies)
counts for the stage that calls them. Callgrind sees neither the kernel nor caches. With --against each figure has that of the other
binary beside it. The table is for reading: it has no goal.
"""
import argparse
import collections
import re
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gateway"))
from callgrind import PARTS, SLOWNESS, both_runs  # noqa: E402
from rig import Rig  # noqa: E402

# The stage of a module; the first fitting pattern counts.
STAGES = [
    ("receive", r"ChaparServer|Hummingbird|NIOHTTP1|CNIOLLHTTP"),
    ("accept", r"ChaparAPI|ChaparGateway|ChaparModules"),
    ("store", r"ChaparStore\w+|ChaparQueue|GRDB"),
    ("deliver", r"ChaparDelivery|ChaparComposition|ChaparObservability"),
    ("send", r"ChaparAPNs|ChaparFCM|ChaparHMS|ChaparHTTP|NIOSSL|NIOHTTP2"),
    ("JSON and model", r"ChaparJSON|ChaparCore"),
    ("NIO", r"NIO\w*|CNIO\w*"),
]
# What the runtime and the C library do for others, by the function's name.
HELPERS = [
    ("reference counts", r"_?swift_(?:\w*[rR]etain|\w*[rR]elease|isUniquely|weak|unowned)|swift::RefCount"),
    ("memory", r"malloc|free|calloc|realloc|je_|_rjem|arena_|tcache_|posix_memalign|_?swift_(?:\w*[aA]lloc|initStack|slow)|operator (?:new|delete)"),
    ("copies", r"_*mem(?:cpy|move|set|cmp)|__mem|swift_array(?:Init|Assign|Destroy)"),
]
# The kind of work of other functions: by name, or by the library that they are in.
KINDS = [
    ("HPACK", r"nghttp2_hd|hd_|emit_|lookup_"),
    ("HTTP/2", r"nghttp2|session_|inflight"),
    ("TLS", r"CNIOBoringSSL|bssl|SSL_|ssl_|EVP_|aes_|gcm_|_?aesni|sha\d|ChaCha|poly1305"),
    ("SQLite", r"sqlite3|sqlite"),
    ("PostgreSQL", r"PQ|pq"),
]


def stage_of(name, library):
    if "libsqlite3" in library or "libpq" in library:
        return "store"
    if "nghttp2" in library:
        return "send"
    module = re.match(r"\$[sS](\d+)", name)
    if module:
        start = module.end()
        found = name[start:start + int(module[1])]
        for stage, pattern in STAGES:
            if re.fullmatch(pattern, found):
                return stage
    for stage, pattern in (("send", r"CNIOBoringSSL|bssl|SSL_|ssl_|EVP_|aes_|gcm_|_?aesni|nghttp2"), ("store", "sqlite3")):
        if re.match(pattern, name):
            return stage
    return None


def helper_of(name):
    return next((kind for kind, pattern in HELPERS if re.match(pattern, name)), None)


def kind_of(name, library):
    if "libsqlite3" in library:
        return "SQLite"
    if "libpq" in library:
        return "PostgreSQL"
    kind = next((kind for kind, pattern in KINDS if re.match(pattern, name)), None)
    if kind is None and "nghttp2" in library:
        return "HTTP/2"
    if kind is None and re.match(r"\$[sS]10ChaparJSON", name):
        return "JSON"
    return kind or "own code"


def table(out):
    """The instructions of a run, by stage and kind."""
    found = collections.Counter()
    names, objects = {}, {}

    def named(text, known):
        number, _, name = text.partition(" ")
        if name:
            known[number] = name
        return known.get(number, text)

    function = library = called = ""
    is_call = False
    for line in out.open():
        line = line.rstrip("\n")
        key, _, value = line.partition("=")
        if key == "fn":
            function = named(value, names)
        elif key == "ob":
            library = named(value, objects)
        elif key == "cob":
            named(value, objects)
        elif key == "cfn":
            called = named(value, names)
        elif key == "calls":
            is_call = True
        elif line[:1].isdigit() or line[:1] in "+-*":
            cost = int(line.split()[-1]) if " " in line else 0
            helper = helper_of(function)
            if is_call:
                # The whole cost of a helper belongs to the stage that called it.
                kind = helper_of(called)
                if kind and not helper:
                    found[stage_of(function, library) or "others", kind] += cost
            elif not helper:
                found[stage_of(function, library) or "others", kind_of(function, library)] += cost
            is_call = False
    return found


def notification(rig, name, binary, folder, on_postgres):
    """The table of one notification."""
    (few, fewer), (many, more) = both_runs(rig, name, binary, folder, on_postgres, 0)
    first, second = table(few), table(many)
    return {cell: (second[cell] - first[cell]) / (more - fewer) for cell in second}


def show(name, tables):
    def rows(axis):
        sums = [collections.Counter() for _ in tables]
        for place, each in enumerate(tables):
            for cell, cost in each.items():
                sums[place][cell[axis]] += cost
        for key, _ in sums[0].most_common():
            yield key, [counter[key] for counter in sums]

    totals = [sum(each.values()) for each in tables]
    for axis, title in enumerate(("stage", "kind")):
        print(f"\n{name}, instructions of a notification by {title}")
        for key, costs in [*rows(axis), ("all", totals)]:
            shares = "".join(f"{cost:>12,.0f} {100 * cost / whole:>5.1f} %" for cost, whole in zip(costs, totals))
            print(f"  {key:<18}{shares}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chapar", default=str(Path(__file__).resolve().parents[2] / ".build/release/chapar"))
    parser.add_argument("--against", help="a second binary, whose figures stand beside")
    parser.add_argument("--only", nargs="*", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--postgres", action="store_true", help="with a private PostgreSQL server as the store")
    parser.add_argument("--keep", metavar="FOLDER", help="where callgrind's files stay")
    arguments = parser.parse_args()
    binaries = [str(Path(binary).absolute()) for binary in (arguments.chapar, arguments.against) if binary]
    with tempfile.TemporaryDirectory(prefix="chapar-bench-") as folder, Rig(folder, arguments.chapar, slowness=SLOWNESS) as rig:
        rig.compile("sigsuspend", "-shared", "-fPIC")
        kept = Path(arguments.keep or folder).absolute()
        kept.mkdir(parents=True, exist_ok=True)
        for name in arguments.only:
            show(name, [notification(rig, name, binary, kept, arguments.postgres) for binary in binaries])


if __name__ == "__main__":
    main()
