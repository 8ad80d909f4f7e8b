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
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gateway"))
from callgrind import PARTS, SLOWNESS, both_runs, total  # noqa: E402
from rig import Rig, judge  # noqa: E402

GOAL = 1.05


def each(rig, name, binary, folder, on_postgres, delay_ms):
    """The instructions of one notification."""
    (few, fewer), (many, more) = both_runs(rig, name, binary, folder, on_postgres, delay_ms)
    return round((total(many) - total(few)) / (more - fewer))


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
