#!/usr/bin/env python3
"""Compares two binaries: CPU for each notification, in alternating pairs of runs.

usage: bench.py --against BINARY [--chapar BINARY] [--pairs N] [--only NAME ...] [--postgres] [--delay-ms N] [--quick] [--json FILE]
       bench.py --tracing SHARE [--chapar BINARY] …

The parts `single` and `hundred` of `Benchmarks/run gateway`, each with both binaries one after the other, so often (default 5) and in
either order. The figure is the median of the pairs' ratios, new to old; the goal is at most 1.05 of CPU, and
nothing lost; when it is missed the exit code is 1. With `--postgres` each run has a private
PostgreSQL server as its store, whose own CPU is not counted; else the embedded store. With `--delay-ms` the platform answers so long
after each message. A binary against itself shows the noise.

With `--tracing` one binary is compared with itself: with a collector of traces and that share of requests sampled, to none. The goal is at
most 1.02 of CPU, and spans at the collector when the share is above 0.
"""
import argparse
import contextlib
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
from receiver import SPANS, receiver  # noqa: E402
from rig import Rig, h2load_reference, judge  # noqa: E402

PARTS = {"single": (1, 100_000, 64), "hundred": (100, 6_000, 16)}  # Notifications a POST, POSTs, connections.
GOAL, TRACING_GOAL = 1.05, 1.02


def measure(rig, reference, name, scale, binary, on_postgres, delay_ms, extra=""):
    """One run of a part with a binary; `extra` are further sections of its configuration."""
    per_post, posts, connections = PARTS[name]
    run = functools.partial(throughput, rig, reference, name, per_post, posts // scale, connections, binary, delay_ms, extra=extra)
    if not on_postgres:
        return run()
    # Not below the rig's folder, which is closed to the user whom the server runs as.
    with postgres(Path(tempfile.gettempdir()) / f"chapar-bench-pg-{name}-{os.getpid()}", "max_wal_size=4GB") as server:
        return run(postgres=server.url)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chapar", default=str(Path(__file__).resolve().parents[2] / ".build/release/chapar"))
    parser.add_argument("--against", help="the binary to compare with")
    parser.add_argument("--tracing", type=float, metavar="SHARE", help="compare with a gateway without traces; at most 1, such as 0.01")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--postgres", action="store_true", help="with a private PostgreSQL server as the store")
    parser.add_argument("--delay-ms", type=int, default=0, metavar="N", help="how long the platform takes for an answer")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work")
    parser.add_argument("--json", help="write every figure there as well")
    arguments = parser.parse_args()
    if (arguments.against is None) == (arguments.tracing is None):
        parser.error("one of --against and --tracing is needed")
    arguments.against = arguments.against or arguments.chapar
    goal = GOAL if arguments.tracing is None else TRACING_GOAL
    scale, figures, missed = 10 if arguments.quick else 1, [], []
    with contextlib.ExitStack() as ends:
        folder = ends.enter_context(tempfile.TemporaryDirectory(prefix="chapar-bench-"))
        rig = ends.enter_context(Rig(folder, arguments.chapar))
        extra, collector = {"chapar": "", "against": ""}, None
        if arguments.tracing is not None:
            collector = ends.enter_context(receiver(rig, SPANS))
            extra["chapar"] = f"tracing: {{ endpoint: '{collector.url}', sample: {arguments.tracing:g} }}\n"
        with rig.responder() as responder:
            reference = h2load_reference(rig, responder, 400_000 // scale)
        print(json.dumps({"benchmark": "h2load", **reference}), flush=True)
        for name in arguments.only:
            for number in range(arguments.pairs):
                pair = {}
                for binary in ("chapar", "against") if number % 2 == 0 else ("against", "chapar"):
                    pair[binary] = measure(rig, reference, name, scale, getattr(arguments, binary), arguments.postgres,
                                           arguments.delay_ms, extra[binary])
                ratios = {key: round(pair["chapar"][key] / pair["against"][key], 3) for key in ("cpu_us", "delivered_per_s")}
                figures.append({"part": name, "ratios": ratios, **pair})
                print(json.dumps({"pair": number + 1, "part": name, "cpu_us": [pair[b]["cpu_us"] for b in ("chapar", "against")],
                                  "ratio": ratios["cpu_us"], "delivered_per_s_ratio": ratios["delivered_per_s"],
                                  "lost": [pair[b]["lost"] for b in ("chapar", "against")]}), flush=True)
            median = {key: round(statistics.median(f["ratios"][key] for f in figures if f["part"] == name), 3)
                      for key in ("cpu_us", "delivered_per_s")}
            print(json.dumps({"benchmark": "pairs", "part": name, "pairs": arguments.pairs, "cpu_ratio": median["cpu_us"],
                              "delivered_per_s_ratio": median["delivered_per_s"]}), flush=True)
            if median["cpu_us"] > goal:
                missed.append(f"{name}: cpu_ratio {median['cpu_us']}, at most {goal} is wanted")
            if any(f["chapar"]["lost"] for f in figures if f["part"] == name):
                missed.append(f"{name}: some are lost")
        if collector:
            spans = collector.figures()["different"]
            print(json.dumps({"benchmark": "pairs", "tracing": arguments.tracing, "spans": spans}), flush=True)
            if (spans > 0) != (arguments.tracing > 0):
                missed.append(f"{spans} spans at the collector")
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(figures, indent=2))
    judge(missed)


if __name__ == "__main__":
    main()
