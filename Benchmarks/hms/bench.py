#!/usr/bin/env python3
"""The HMS backend with 1,000 recipients in a request against one: CPU for each recipient, from the public `send` on.

usage: bench.py [--recipients N] [--runs N] [--json FILE] [--binary FILE]

Both send the same notification to the same simulator by turns, handed over as a gateway's worker does, one recipient in each
request of `send`. The goal is that a recipient costs at most a twentieth in a full batch. Client and simulator are pinned to
different cores, and only the client's CPU is counted. When the goal is missed the exit code is 1.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "transport"), str(HERE.parent / "gateway")]
import bench as transport  # noqa: E402
from rig import judge  # noqa: E402

GOAL = 20


def pinned(core):
    """Runs a child on one core, where there are two."""
    cores = sorted(os.sched_getaffinity(0))
    chosen = cores[core % len(cores)]
    return lambda: os.sched_setaffinity(0, {chosen})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipients", type=int, default=200_000, help="in full batches; a twentieth of them one by one")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", help="write the result there, too")
    parser.add_argument("--binary", help="hms-bench, when it is built already")
    options = parser.parse_args()
    binary = options.binary or transport.build("hms-bench")

    server = subprocess.Popen([binary, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                              preexec_fn=pinned(1))
    results = {1: [], 1000: []}
    try:
        places = json.loads(server.stdout.readline())
        with tempfile.TemporaryDirectory() as folder:
            ca = Path(folder, "ca.pem")
            ca.write_text(places["ca"])
            for _ in range(options.runs):
                for batch, total in ((1, options.recipients // 20), (1000, options.recipients)):
                    out = subprocess.run(
                        [binary, "send", places["push"], places["token"], str(ca), str(batch), str(total)],
                        check=True, capture_output=True, text=True, preexec_fn=pinned(0))
                    run = json.loads(out.stdout)
                    if run["failed"]:
                        sys.exit(f"{run['failed']} of {total} failed")
                    results[batch].append(run)
    finally:
        server.stdin.close()
        server.wait(timeout=10)

    cost = {batch: statistics.median(run["cpu_us_per_recipient"] for run in runs) for batch, runs in results.items()}
    rate = {batch: statistics.median(run["recipients_per_second"] for run in runs) for batch, runs in results.items()}
    result = {"benchmark": "hms", "runs": options.runs, "cpu_us_per_recipient": cost, "recipients_per_second": rate,
              "ratio": cost[1] / cost[1000], "goal": GOAL}
    for batch in (1, 1000):
        print(f"batch {batch:>4}: {cost[batch]:8.2f} us of CPU a recipient, {rate[batch]:10,.0f} recipients/s")
    print(f"ratio {result['ratio']:.1f} (goal: at least {GOAL})")
    if options.json:
        Path(options.json).write_text(json.dumps(result, indent=1) + "\n")
    if result["ratio"] < GOAL:
        judge([f"ratio {result['ratio']:.1f}, at least {GOAL} is wanted"])


if __name__ == "__main__":
    main()
