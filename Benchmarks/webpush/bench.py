#!/usr/bin/env python3
"""The Web Push backend: CPU of a message through the public `send`, against key generation, agreement and sealing alone.

usage: bench.py [--messages N] [--runs N] [--json FILE] [--binary FILE]

Both are of the same library, in one process and by turns; nothing is sent. The goal is at most 1.5 times the CPU. When it is missed
the exit code is 1.
"""
import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "transport")]
import bench as transport  # noqa: E402

GOAL = 1.5


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", help="write the result there, too")
    parser.add_argument("--binary", help="webpush-bench, when it is built already")
    options = parser.parse_args()
    binary = options.binary or transport.build("webpush-bench")
    out = subprocess.run([binary, str(options.messages), str(options.runs)], check=True, capture_output=True, text=True)
    runs = json.loads(out.stdout)["runs"]
    cost = {name: statistics.median(run[name] for run in runs) for name in ("floor", "send")}
    ratio = statistics.median(run["send"] / run["floor"] for run in runs)
    print(f"key pair, agreement, sealing: {cost['floor']:8.1f} us of CPU a message")
    print(f"the backend's send:           {cost['send']:8.1f} us of CPU a message")
    print(f"ratio {ratio:.2f} (goal: at most {GOAL})")
    if options.json:
        Path(options.json).write_text(json.dumps({"benchmark": "webpush", "cpu_us": cost, "ratio": ratio, "goal": GOAL}))
    sys.exit(ratio > GOAL)


if __name__ == "__main__":
    main()
