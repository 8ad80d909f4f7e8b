#!/usr/bin/env python3
"""Posts batches as fast as they are taken: what a gateway accepts, what it refuses, and the memory that it takes.

usage: bench.py [--chapar BINARY] [--against BINARY] [--seconds N] [--rounds N] [--json FILE]

Eight connections with 1,000 notifications in each request. With --against another binary runs by turns with the first, and the
ratios are printed. The goals: resident memory below 300 MiB, at least 0.9 times what the other accepts. When
one is missed the exit code is 1.
"""
import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gateway"))
from rig import Rig, judge  # noqa: E402

BATCH = 1000
PEAK_MIB = 300
ACCEPTED = 0.9  # Of what the other binary accepts.


def saturate(rig, chapar, seconds):
    """One run with a fresh database."""
    with rig.responder() as responder, rig.gateway(responder.port, chapar=chapar) as gateway:
        with rig.load(gateway, seconds, "-b", -1, "-d", 8, "-n", BATCH, "-i", seconds) as load:
            lines = [json.loads(line) for line in load.stdout]
        accepted, statuses = sum(line["accepted"] for line in lines), {}
        for status, count in ((status, count) for line in lines for status, count in line["statuses"].items()):
            statuses[status] = statuses.get(status, 0) + count
        return {"accepted_per_s": round(accepted / lines[-1]["second"]), "delivered_per_s": round(responder.answered / lines[-1]["second"]),
                "peak_mib": round(gateway.memory("VmHWM"), 1), "answers": statuses, "broken": sum(line["broken"] for line in lines),
                "p99_ms": lines[0]["batch_p99_ms"], "file_mib": round(gateway.stored_mib, 1)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chapar", default=str(Path(__file__).resolve().parents[2] / ".build/release/chapar"))
    parser.add_argument("--against", help="another binary of chapar, by turns with the first")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--json", help="write every figure there as well")
    arguments = parser.parse_args()
    names = ["chapar"] + (["against"] if arguments.against else [])
    figures = {name: [] for name in names}
    with tempfile.TemporaryDirectory(prefix="chapar-bench-") as folder, Rig(folder, arguments.chapar) as rig:
        for number in range(arguments.rounds):
            for name in names if number % 2 == 0 else reversed(names):
                figures[name].append(saturate(rig, getattr(arguments, name), arguments.seconds))
                print(json.dumps({"benchmark": "saturation", "binary": name, **figures[name][-1]}), flush=True)
    peak, missed = max(run["peak_mib"] for run in figures["chapar"]), []
    if peak >= PEAK_MIB:
        missed.append(f"peak_mib {peak}, below {PEAK_MIB} is wanted")
    if arguments.against:
        for key in ("accepted_per_s", "delivered_per_s", "peak_mib"):
            ratio = statistics.median(a[key] / b[key] for a, b in zip(figures["chapar"], figures["against"]))
            print(json.dumps({"benchmark": "saturation", "ratio_of": key, "ratio": round(ratio, 3)}), flush=True)
            if key == "accepted_per_s" and ratio < ACCEPTED:
                missed.append(f"accepted_per_s {ratio:.3f} of the other binary, at least {ACCEPTED} is wanted")
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(figures, indent=2))
    judge(missed)


if __name__ == "__main__":
    main()
