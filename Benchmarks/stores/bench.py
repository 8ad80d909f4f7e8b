#!/usr/bin/env python3
"""Compares the two stores: delivered per second and CPU, in alternating pairs of runs, and what each delivery costs PostgreSQL.

usage: bench.py [--chapar BINARY] [--pairs N] [--only NAME ...] [--apart] [--quick] [--json FILE]

The parts `single` and `hundred` of `Benchmarks/run gateway` with the embedded store and with a private PostgreSQL server beside the
gateway (its settings are Debian's; `synchronous_commit` is on). What counts is the median of the pairs' ratios, PostgreSQL to
embedded; the goals are at least 0.4 for `single` and 0.3 for `hundred`. After each run on PostgreSQL raw.c does the same two statements for
as many rows each as the gateway had in one, without a gateway: `hundred` is to reach 0.6 of it, which is judged with `--apart` alone. By default
PostgreSQL runs on both cores, beside the gateway, the load and the stand-in, and raw.c has both for itself and the server. With `--apart` the server
has one core for itself, as on a machine of its own, and the other is everybody else's: the gateway's, the load's and the stand-in's, or raw.c's.
When a goal is missed the exit code is 1.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SERVER_CPU, OTHER_CPU = "0", "1"  # With --apart; read before the rig decides on its own.
if "--apart" in sys.argv:
    os.environ |= {"BENCH_LOAD_CPU": OTHER_CPU, "BENCH_GATEWAY_CPU": OTHER_CPU}
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gateway"))
from bench import throughput  # noqa: E402
from postgres import postgres  # noqa: E402
from rig import Rig, h2load_reference, judge  # noqa: E402

PARTS = {"single": (1, 60_000, 64), "hundred": (100, 3_000, 16)}  # Notifications a POST, POSTs, connections.
GOALS = {"single": 0.4, "hundred": 0.3}  # Of the embedded store.
RAW_GOALS = {"hundred": 0.6}  # Of raw.c, judged with --apart: else raw.c and the server have both cores for themselves.

STORE = Path(__file__).resolve().parents[2] / "Sources/ChaparStorePostgres"


def statement(file, name):
    """A statement of the store, as the server gets it."""
    def text(source, name):
        found = re.search(rf'static let {name} = """\n(.*?)\n\s*"""', source, re.S)
        return re.sub(r"\\\n\s*", "", found.group(1))
    joined = text((STORE / "Queue/EndedDelivery.swift").read_text(), "joinedLog")
    return text((STORE / file).read_text(), name).replace("\\(EndedDelivery.joinedLog)", joined)


def raw(rig, server, rows, on):
    """Deliveries a second that raw.c inserts and ends, so many in a statement, and the server's CPU for each in microseconds."""
    program = Path(rig.folder) / "raw"
    if not program.exists():
        include = subprocess.run(["pg_config", "--includedir"], check=True, capture_output=True, text=True).stdout.strip()
        subprocess.run(["cc", "-O2", "-o", program, Path(__file__).with_name("raw.c"), f"-I{include}", "-lpq", "-lpthread"], check=True)
    files = []
    for name, text in (("insertion", statement("Accept/EnqueueRows.swift", "insertion")), ("end", statement("Record/RecordLoop.swift", "statement"))):
        files.append(Path(rig.folder) / f"{name}.sql")
        files[-1].write_text(text)
    total = 30_000 if rows < 100 else 150_000
    cpu = server.cpu
    out = subprocess.run([*on, program, server.url, *files, str(rows), str(total)], check=True, capture_output=True, text=True)
    return int(out.stdout), round((server.cpu - cpu) * 1e6 / total, 1)


def run(rig, reference, name, scale, chapar, store, number, is_apart):
    """One run with a store; on PostgreSQL with what it counted."""
    per_post, posts, connections = PARTS[name]
    if store == "sqlite":
        return throughput(rig, reference, name, per_post, posts // scale, connections, chapar)
    folder = Path(tempfile.gettempdir()) / f"chapar-bench-pg-{name}-{number}"
    within = ("taskset", "-c", SERVER_CPU) if is_apart else ()
    with postgres(folder, "max_wal_size=4GB", within=within) as server:
        before, cpu = server.counters(), server.cpu
        figures = throughput(rig, reference, name, per_post, posts // scale, connections, chapar, postgres=server.url)
        figures["server_cpu_us"] = round((server.cpu - cpu) * 1e6 / figures["delivered"], 1)
        time.sleep(1)
        after = server.counters()
        figures["commits_a_delivery"] = round((after["commits"] - before["commits"]) / figures["delivered"], 4)
        figures["wal_bytes_a_delivery"] = round((after["wal"] - before["wal"]) / figures["delivered"])
        rows = max(1, round(2 / max(figures["commits_a_delivery"], 0.002)))
        on = ("taskset", "-c", OTHER_CPU) if is_apart else ()
        figures["raw_per_s"], figures["raw_server_cpu_us"] = raw(rig, server, rows, on)
        figures["of_raw"] = round(figures["delivered_per_s"] / figures["raw_per_s"], 3)
        return figures


def verdict(name, ratio, of_raw, is_apart):
    """What a part came to, and which goals it missed."""
    raw_goal = RAW_GOALS.get(name) if is_apart else None
    missed = [f"{name}: {figure} of {of}, at least {goal} is wanted"
              for figure, of, goal in ((ratio, "the embedded store", GOALS[name]), (of_raw, "raw.c", raw_goal))
              if goal is not None and figure < goal]
    goals = {"goal": GOALS[name], "of_raw": of_raw}
    if raw_goal is not None:
        goals["of_raw_goal"] = raw_goal
    elif name in RAW_GOALS:
        goals["of_raw_note"] = "not judged: raw.c has both cores for itself and the server; a run with --apart counts"
    return goals, missed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chapar", default=str(Path(__file__).resolve().parents[2] / ".build/release/chapar"))
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--apart", action="store_true", help="PostgreSQL on one core, everything else on the other")
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
                for store in ("sqlite", "postgres") if number % 2 == 0 else ("postgres", "sqlite"):
                    pair[store] = run(rig, reference, name, scale, arguments.chapar, store, number, arguments.apart)
                ratios = {key: round(pair["postgres"][key] / pair["sqlite"][key], 3) for key in ("cpu_us", "delivered_per_s")}
                figures.append({"part": name, "ratios": ratios, **pair})
                print(json.dumps({"pair": number + 1, "part": name, "ratios": ratios, "postgres": pair["postgres"],
                                  "sqlite_delivered_per_s": pair["sqlite"]["delivered_per_s"]}), flush=True)
            median = {key: round(statistics.median(f["ratios"][key] for f in figures if f["part"] == name), 3)
                      for key in ("cpu_us", "delivered_per_s")}
            of_raw = round(statistics.median(f["postgres"]["of_raw"] for f in figures if f["part"] == name), 3)
            goals, misses = verdict(name, median["delivered_per_s"], of_raw, arguments.apart)
            missed += misses
            print(json.dumps({"benchmark": "stores", "part": name, "delivered_per_s_ratio": median["delivered_per_s"], **goals,
                              "cpu_ratio": median["cpu_us"], "is_well": not misses}), flush=True)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(figures, indent=2))
    judge(missed)


if __name__ == "__main__":
    main()
