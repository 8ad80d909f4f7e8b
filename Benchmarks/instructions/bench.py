#!/usr/bin/env python3
"""Counts the instructions of a notification in two binaries, under callgrind.

usage: bench.py --against BINARY [--chapar BINARY] [--only NAME ...] [--postgres] [--delay-ms N] [--keep FOLDER]

The parts `single` and `hundred` of `Benchmarks/run gateway`. Each binary runs twice, with few notifications and with five times as many, so
that the start counts for nothing. Two counts of one binary differ by less than a hundredth where two measurements of its CPU differ by a
quarter: so this shows what a change costs, and `callgrind_annotate` on the files in FOLDER in which function. It says nothing of waits, caches
and the kernel: for these there is `Benchmarks/run pairs`. With `--delay-ms` the platform answers so long after a request; a gateway is about
40 times slower under valgrind, so 800 ms stand for 20 ms. The goal is at most 1.05; the exit code is 1 when it is missed. Needs valgrind.
"""
import argparse
import json
import re
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gateway"))
from bench import throughput  # noqa: E402
from postgres import postgres  # noqa: E402
from rig import Rig, judge  # noqa: E402

PARTS = {"single": (1, 1_000, 32), "hundred": (100, 50, 8)}  # Notifications a POST, POSTs of the smaller run, connections.
TIMES = 5
GOAL = 1.05
SLOWNESS = 40  # How much longer a gateway may take than without valgrind.


def counted(rig, binary, out, **run):
    """The instructions of a gateway's whole life, and the notifications that it delivered."""
    program = Path(rig.path("counted"))
    program.write_text(f"""#!/bin/sh
[ "$1" = serve ] || exec '{binary}' "$@"
LD_PRELOAD='{rig.path("sigsuspend")}' exec valgrind --tool=callgrind --callgrind-out-file='{out}' '{binary}' "$@"
""")
    program.chmod(0o755)
    figures = throughput(rig, {"cpu_us": 1}, chapar=str(program), **run)
    if figures["lost"]:
        raise SystemExit(f"{binary}: {figures['lost']} are lost")
    return int(re.search(r"^totals: (\d+)", out.read_text(), re.M)[1]), figures["delivered"]


def each(rig, name, binary, folder, on_postgres, delay_ms):
    """The instructions of one notification."""
    per_post, posts, connections = PARTS[name]
    found = []
    for times in (1, TIMES):
        run = {"name": name, "per_post": per_post, "posts": posts * times, "connections": connections, "delay_ms": delay_ms}
        out = folder / f"{Path(binary).name}-{name}{'-postgres' * on_postgres}-{times}.callgrind"
        if not on_postgres:
            found.append(counted(rig, binary, out, **run))
            continue
        with tempfile.TemporaryDirectory(prefix="chapar-bench-pg-") as place:
            Path(place).chmod(0o755)  # The server may run as another user.
            with postgres(Path(place) / "postgres", "max_wal_size=4GB") as server:
                found.append(counted(rig, binary, out, **run, postgres=server.url))
    (few, fewer), (many, more) = found
    return round((many - few) / (more - fewer))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chapar", default=str(Path(__file__).resolve().parents[2] / ".build/release/chapar"))
    parser.add_argument("--against", required=True, help="the binary to compare with")
    parser.add_argument("--only", nargs="*", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--postgres", action="store_true", help="with a private PostgreSQL server as the store")
    parser.add_argument("--delay-ms", type=int, default=0, metavar="N", help="how long the platform takes for an answer")
    parser.add_argument("--keep", metavar="FOLDER", help="where callgrind's files stay")
    arguments = parser.parse_args()
    missed = []
    with tempfile.TemporaryDirectory(prefix="chapar-bench-") as folder, Rig(folder, arguments.chapar, slowness=SLOWNESS) as rig:
        rig.compile("sigsuspend", "-shared", "-fPIC")
        kept = Path(arguments.keep or folder).absolute()
        kept.mkdir(parents=True, exist_ok=True)
        for name in arguments.only:
            new, old = (each(rig, name, str(Path(binary).absolute()), kept, arguments.postgres, arguments.delay_ms)
                        for binary in (arguments.chapar, arguments.against))
            print(json.dumps({"benchmark": "instructions", "part": name, "store": "postgres" if arguments.postgres else "sqlite",
                              "delay_ms": arguments.delay_ms, "instructions": [new, old], "ratio": round(new / old, 3)}), flush=True)
            if new / old > GOAL:
                missed.append(f"{name}: ratio {new / old:.3f}, at most {GOAL} is wanted")
    judge(missed)


if __name__ == "__main__":
    main()
