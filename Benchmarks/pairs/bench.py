#!/usr/bin/env python3
"""Compares two binaries: CPU for each notification, in alternating pairs of runs.

usage: bench.py --against BINARY [--chapar BINARY] [--pairs N] [--only NAME ...] [--postgres] [--delay-ms N] [--quick] [--json FILE]

The parts `single` and `hundred` of `Benchmarks/run gateway`, each with both binaries one after the other, so often (default 5) and in
either order. The figure is the median of the pairs' ratios, new to old; the goal is at most 1.05 of CPU, and
nothing lost; when it is missed the exit code is 1. With `--postgres` each run has a private
PostgreSQL server as its store, whose own CPU is not counted; else the embedded store. With `--delay-ms` the platform answers so long
after each message. A binary against itself shows the noise.
"""
import argparse
import functools
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gateway"))
from bench import throughput  # noqa: E402
from postgres import postgres  # noqa: E402
from rig import Rig, h2load_reference, judge  # noqa: E402

PARTS = {"single": (1, 100_000, 64), "hundred": (100, 6_000, 16)}  # Notifications a POST, POSTs, connections.
GOAL = 1.05


def measure(rig, reference, name, scale, binary, on_postgres, delay_ms):
    """One run of a part with a binary."""
    per_post, posts, connections = PARTS[name]
    run = functools.partial(throughput, rig, reference, name, per_post, posts // scale, connections, binary, delay_ms)
    if not on_postgres:
        return run()
    # Not below the rig's folder, which is closed to the user whom the server runs as.
    with postgres(Path(tempfile.gettempdir()) / f"chapar-bench-pg-{name}-{os.getpid()}", "max_wal_size=4GB") as server:
        return run(postgres=server.url)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chapar", default=str(Path(__file__).resolve().parents[2] / ".build/release/chapar"))
    parser.add_argument("--against", required=True, help="the binary to compare with")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--postgres", action="store_true", help="with a private PostgreSQL server as the store")
    parser.add_argument("--delay-ms", type=int, default=0, metavar="N", help="how long the platform takes for an answer")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work")
    parser.add_argument("--json", help="write every figure there as well")
    arguments = parser.parse_args()
    scale, figures, missed = 10 if arguments.quick else 1, [], []
    with tempfile.TemporaryDirectory(prefix="chapar-bench-") as folder, Rig(folder, arguments.chapar) as rig:
        with rig.responder() as responder:
            reference = h2load_reference(rig, responder, 400_000 // scale)
        print(json.dumps({"benchmark": "h2load", **reference}), flush=True)
        for name in arguments.only:
            for number in range(arguments.pairs):
                pair = {}
                for binary in ("chapar", "against") if number % 2 == 0 else ("against", "chapar"):
                    pair[binary] = measure(rig, reference, name, scale, getattr(arguments, binary), arguments.postgres,
                                           arguments.delay_ms)
                ratios = {key: round(pair["chapar"][key] / pair["against"][key], 3) for key in ("cpu_us", "delivered_per_s")}
                figures.append({"part": name, "ratios": ratios, **pair})
                print(json.dumps({"pair": number + 1, "part": name, "cpu_us": [pair[b]["cpu_us"] for b in ("chapar", "against")],
                                  "ratio": ratios["cpu_us"], "delivered_per_s_ratio": ratios["delivered_per_s"],
                                  "lost": [pair[b]["lost"] for b in ("chapar", "against")]}), flush=True)
            median = {key: round(statistics.median(f["ratios"][key] for f in figures if f["part"] == name), 3)
                      for key in ("cpu_us", "delivered_per_s")}
            print(json.dumps({"benchmark": "pairs", "part": name, "pairs": arguments.pairs, "cpu_ratio": median["cpu_us"],
                              "delivered_per_s_ratio": median["delivered_per_s"]}), flush=True)
            if median["cpu_us"] > GOAL:
                missed.append(f"{name}: cpu_ratio {median['cpu_us']}, at most {GOAL} is wanted")
            if any(f["chapar"]["lost"] for f in figures if f["part"] == name):
                missed.append(f"{name}: some are lost")
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(figures, indent=2))
    judge(missed)


if __name__ == "__main__":
    main()
