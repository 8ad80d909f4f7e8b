#!/usr/bin/env python3
"""Counts the instructions of a notification in two binaries, under callgrind.

usage: bench.py --against BINARY [--chapar BINARY] [--only NAME ...] [--postgres] [--delay-ms N] [--keep FOLDER]
       bench.py --tracing SHARE [--chapar BINARY] …

The parts `single` and `hundred` of `Benchmarks/run gateway`. Each binary runs twice, with few notifications and with five times as many, so
that the start counts for nothing. Two counts of one binary differ by less than a hundredth where two measurements of its CPU differ by a
quarter: so this shows what a change costs, and `callgrind_annotate` on the files in FOLDER in which function. It says nothing of waits, caches
and the kernel: for these there is `Benchmarks/run pairs`. With `--delay-ms` the platform answers so long after a request; a gateway is about
40 times slower under valgrind, so 800 ms stand for 20 ms. The goal is at most 1.05; the exit code is 1 when it is missed. Needs valgrind.

With `--tracing` one binary is compared with itself: with a collector of traces and that share of requests sampled, to none. The goal is at
most 1.02. The runs are short: of few requests a share of 0.01 may sample none, so the part `hundred` takes 0.1 or more.
"""
import argparse
import contextlib
import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gateway"))
from callgrind import PARTS, SLOWNESS, both_runs, total  # noqa: E402
from receiver import SPANS, receiver  # noqa: E402
from rig import Rig, judge  # noqa: E402

GOAL, TRACING_GOAL = 1.05, 1.02


def each(rig, name, binary, folder, on_postgres, delay_ms, extra="", label=""):
    """The instructions of one notification."""
    (few, fewer), (many, more) = both_runs(rig, name, binary, folder, on_postgres, delay_ms, extra, label)
    return round((total(many) - total(few)) / (more - fewer))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chapar", default=str(Path(__file__).resolve().parents[2] / ".build/release/chapar"))
    parser.add_argument("--against", help="the binary to compare with")
    parser.add_argument("--tracing", type=float, metavar="SHARE", help="compare with a gateway without traces; at most 1, such as 0.01")
    parser.add_argument("--only", nargs="*", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--postgres", action="store_true", help="with a private PostgreSQL server as the store")
    parser.add_argument("--delay-ms", type=int, default=0, metavar="N", help="how long the platform takes for an answer")
    parser.add_argument("--keep", metavar="FOLDER", help="where callgrind's files stay")
    arguments = parser.parse_args()
    if (arguments.against is None) == (arguments.tracing is None):
        parser.error("one of --against and --tracing is needed")
    missed, goal = [], GOAL if arguments.tracing is None else TRACING_GOAL
    with contextlib.ExitStack() as ends:
        folder = ends.enter_context(tempfile.TemporaryDirectory(prefix="chapar-bench-"))
        rig = ends.enter_context(Rig(folder, arguments.chapar, slowness=SLOWNESS))
        extra, collector = "", None
        if arguments.tracing is not None:
            collector = ends.enter_context(receiver(rig, SPANS))
            extra = f"tracing: {{ endpoint: '{collector.url}', sample: {arguments.tracing:g} }}\n"
        sides = [(arguments.chapar, extra, "-traced" if extra else ""), (arguments.against or arguments.chapar, "", "")]
        rig.compile("sigsuspend", "-shared", "-fPIC")
        kept = Path(arguments.keep or folder).absolute()
        kept.mkdir(parents=True, exist_ok=True)
        for name in arguments.only:
            new, old = (each(rig, name, str(Path(binary).absolute()), kept, arguments.postgres, arguments.delay_ms, *more)
                        for binary, *more in sides)
            print(json.dumps({"benchmark": "instructions", "part": name, "store": "postgres" if arguments.postgres else "sqlite",
                              "delay_ms": arguments.delay_ms, "instructions": [new, old], "ratio": round(new / old, 3)}), flush=True)
            if new / old > goal:
                missed.append(f"{name}: ratio {new / old:.3f}, at most {goal} is wanted")
        if collector:
            print(json.dumps({"benchmark": "instructions", "tracing": arguments.tracing, "spans": collector.figures()["different"]}), flush=True)
    judge(missed)


if __name__ == "__main__":
    main()
