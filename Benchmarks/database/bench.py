#!/usr/bin/env python3
"""What years do to the PostgreSQL store: many claimers, a long queue, old days that are dropped, and a reader that holds a snapshot.

usage: bench.py [--program STORE-BENCH] [--only PART ...] [--minutes N] [--calm N] [--millions N] [--json FILE]

    claimers  1, 2, 4 and 8 nodes work off what waits: 2 to 8 within 20 % of each other, 1 at least 0.6 of 2
    backlog   claims and ends before 1,000 and before 1,000,000 others: the latter at least 1 / 1.5 of the former
    drop      a day with a million rows is dropped while 200 a second are sent: the p99 stays
    churn     a day's work of 10 million devices, 30 million deliveries, goes through: the tables in which rows come and go stay small
    snapshot  a reader holds a snapshot for N minutes (30) under load: deliveries a second fall by 10 % at most

The program is `store-bench` (`swift build -c release --package-path Benchmarks --product store-bench`); the server is private, with Debian's
settings. Figures are ratios within one run; when one misses its bound the exit code is 1.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "gateway"))
from postgres import postgres  # noqa: E402
from rig import judge  # noqa: E402

PROGRAM = HERE.parent / ".build/release/store-bench"


def bench(program, server, case, **environment):
    """The lines that a case prints, as they come."""
    child = subprocess.Popen([program, "/tmp/", case], stdout=subprocess.PIPE, text=True,
                             env={**os.environ, "POSTGRES_URL": server.url, **environment})
    for line in child.stdout:
        print(f"  {line}", end="", flush=True)
        yield line
    if child.wait():
        raise SystemExit(f"{case} ended with {child.returncode}")


def rates(lines):
    return [int(re.search(r" (\d+) rows/s", line).group(1)) for line in lines if "rows/s" in line]


def claimers(program, server):
    # A round takes seconds, in which a checkpoint or a vacuum may fall: the medians of three.
    rounds = [rates(bench(program, server, "claimers")) for _ in range(3)]
    one, two, four, eight = (statistics.median(found) for found in zip(*rounds))
    many = (two, four, eight)
    return {"rates": [one, *many], "one_to_two": one / two, "least_to_most": min(many) / max(many),
            "is_well": one / two >= 0.6 and min(many) / max(many) >= 0.8}


def backlog(program, server):
    few, many = rates(bench(program, server, "backlog"))
    return {"rates": [few, many], "cost": few / many, "is_well": few / many <= 1.5}


def drop(program, server):
    spans = [float(found) for line in bench(program, server, "drop") for found in re.findall(r"p99 ([\d.]+) ms", line)]
    during = spans.pop(2)  # Two spans of 20 seconds without, one with, two without.
    usual = statistics.median(spans)
    return {"p99": during, "without": spans, "ratio": during / usual, "is_well": during <= max(1.1 * usual, usual + 2)}


# Tables that only grow until a day is over, and are dropped whole then.
DIVIDED = ("notifications_d", "results_d", "awaited_d", "events_d")


def tables(server, schema):
    """Rows that live and are dead, bytes of the table and of its indexes, of all tables of a schema."""
    lines = server.ask(f"""
        SELECT relname, n_live_tup, n_dead_tup, pg_relation_size(relid), pg_indexes_size(relid)
        FROM pg_stat_user_tables WHERE schemaname = '{schema}' AND pg_total_relation_size(relid) > 0 ORDER BY 4 DESC, 1
        """).splitlines()
    return {name: tuple(map(int, figures)) for name, *figures in (line.split("|") for line in lines)}


def newest_schema(server):
    return server.ask("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'bench_%' ORDER BY oid DESC LIMIT 1")


def show(found):
    print(f"{'table':24} {'live':>12} {'dead':>12} {'table bytes':>15} {'index bytes':>15}")
    for name, figures in found.items():
        print(f"{name:24}" + "".join(f" {figure:>{width}}" for figure, width in zip(figures, (12, 12, 15, 15))), flush=True)


def churn(program, server, millions):
    """Notes after each million what the tables take in which rows come and go."""
    sizes, schema = [], None
    for line in bench(program, server, "day", MILLIONS=str(millions)):
        if "rows/s" in line:
            schema = schema or newest_schema(server)
            found = tables(server, schema)
            sizes.append({name: sum(figures[2:]) for name, figures in found.items() if not name.startswith(DIVIDED)})
    show(found)
    third = len(sizes) // 3
    names = sizes[-1]
    most = {name: [max((size.get(name, 0) for size in part), default=0) for part in (sizes[third:2 * third], sizes[2 * third:])] for name in names}
    grown = {name: bounds for name, bounds in most.items() if bounds[1] > 1.5 * bounds[0] and bounds[1] > 1 << 20}
    return {"bytes": sizes[-1], "most": {name: bounds[1] for name, bounds in most.items()}, "grown": grown, "is_well": not grown}


def snapshot(program, server, minutes, calm):
    """Runs a steady load; a session reads once and holds its snapshot for so many minutes, with so many calm ones before and after."""
    begin, end = 60 * calm, 60 * (calm + minutes)
    seconds, rows, schema, reader = int(end + begin), [], None, None

    def hold():
        time.sleep(begin - 10)
        server.ask(f"BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM {schema}.nodes; SELECT pg_sleep({minutes * 60}); COMMIT")

    rates = []
    for line in bench(program, server, "steady", SECONDS=str(seconds)):
        found = re.match(r"steady (\d+) (\d+)", line)
        if not found:
            continue
        second = int(found[1])
        rates.append((second, int(found[2])))
        if reader is None:
            schema = newest_schema(server)
            reader = threading.Thread(target=hold)
            reader.start()
        if second % 60 == 0:
            dead, size = server.ask(
                f"SELECT n_dead_tup, pg_total_relation_size(relid) FROM pg_stat_user_tables WHERE schemaname = '{schema}' AND relname = 'waiting'"
            ).split("|")
            rows.append({"second": second, "dead": int(dead), "bytes": int(size), **server.counters()})
    reader.join()
    show(tables(server, schema))
    free = [rate for second, rate in rates if 60 < second <= begin]
    held = [rate for second, rate in rates if max(begin, end - 300) < second <= end]
    first, last = rows[0], rows[-1]
    delivered = sum(rate for second, rate in rates if first["second"] < second <= last["second"])
    chart(rates, begin, end)
    return {"free": sum(free) / len(free) / 10, "held": sum(held) / len(held) / 10,
            "ratio": (sum(held) / len(held)) / (sum(free) / len(free)), "minutes": rows,
            "commits_a_delivery": (last["commits"] - first["commits"]) / delivered, "wal_a_delivery": (last["wal"] - first["wal"]) / delivered,
            "is_well": (sum(held) / len(held)) / (sum(free) / len(free)) >= 0.9}


def chart(rates, begin, end):
    """Deliveries a second, a line for two minutes."""
    spans = [rates[start:start + 12] for start in range(0, len(rates), 12)]
    most = max(sum(rate for _, rate in span) / len(span) for span in spans)
    for span in spans:
        rate = sum(rate for _, rate in span) / len(span)
        held = "held" if begin < span[-1][0] <= end else ""
        print(f"{span[-1][0] // 60:4} min {rate / 10:8.0f}/s {'#' * round(40 * rate / most):40} {held}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default=str(PROGRAM))
    parser.add_argument("--only", nargs="*", default=["claimers", "backlog", "drop", "churn", "snapshot"])
    parser.add_argument("--minutes", type=float, default=30, help="for which the snapshot is held")
    parser.add_argument("--calm", type=float, default=5, help="minutes before and after that")
    parser.add_argument("--millions", type=int, default=30, help="of deliveries in a day's work")
    parser.add_argument("--json", help="write the figures there as well")
    arguments = parser.parse_args()
    figures = {}
    more = {"snapshot": (arguments.minutes, arguments.calm), "churn": (arguments.millions,)}
    for part in arguments.only:
        with tempfile.TemporaryDirectory(prefix="chapar-database-") as folder:
            os.chmod(folder, 0o755)  # The server may run as another user.
            with postgres(Path(folder) / "postgres", "max_connections=200") as server:
                print(part, flush=True)
                figures[part] = globals()[part](arguments.program, server, *more.get(part, ()))
        print(json.dumps({part: figures[part]}), flush=True)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(figures, indent=2))
    judge([part for part, found in figures.items() if not found["is_well"]])


if __name__ == "__main__":
    main()
