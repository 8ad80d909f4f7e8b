#!/usr/bin/env python3
"""Measures what a gateway writes while many messages wait, and how soon they go out when their backend is back.

usage: bench.py [--chapar BINARY] [--waiting N ...] [--settle S] [--seconds S] [--only gone|paused] [--postgres] [--json FILE]

Two reasons to wait: `gone`, the backend was taken out of the configuration; `paused`, its platform cannot be reached, and the
messages are for no other backend, while a route goes on from it to another after a second (`fallback_after`). After `--settle` seconds the
bytes are counted that the process writes, by any system call; with `--postgres` those of the database's write-ahead log. Then the backend comes back: by a reload of a configuration that has it again, or with
`POST /v1/backends/ios/retry` once its platform answers. Goals: below 20 KB/s written; the first message within 2 s, and from then on
no 2 s without one until all have gone. Ends with 1 when a goal is missed.
"""
import argparse
import contextlib
import json
import os
import signal
import sys
import tempfile
import time
import urllib.error
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gateway"))
from postgres import postgres  # noqa: E402
from rig import Rig, free_port, notification  # noqa: E402

BATCH = 1000
KEYS = "kind: apns, team_id: DEF123GHIJ, key_id: ABC123DEFG, key_file: AuthKey.p8, topic: com.example.app, " \
    "environment: production, ca_file: ca.pem"


def backend(name, port):
    return f"  {name}: {{ {KEYS}, base_url: 'https://127.0.0.1:{port}' }}\n"


def written(pid):
    """Bytes that a process has handed to the system so far, and bytes that it had written to disk."""
    fields = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
    return int(fields["wchar"]), int(fields["write_bytes"])


def post_all(gateway, waiting, **fields):
    for start in range(0, waiting, BATCH):
        batch = [notification(number, ttl=86_400) | fields for number in range(start, min(start + BATCH, waiting))]
        gateway.post("/v1/notifications/batch", {"notifications": batch})


def idle(gateway, settle, seconds, database):
    """Bytes a second that are written, those that go to the disk, and the CPU a second that it costs, after a while."""
    def look():
        chars, disk = written(gateway.pid)
        if database:  # A gateway writes to its sockets; what it has the database write is in the log.
            chars = disk = database.counters()["wal"]
        return chars, disk, gateway.cpu

    time.sleep(settle)
    before = look()
    time.sleep(seconds)
    return [(after - begun) / seconds for after, begun in zip(look(), before)]


def until_out(responder, waiting, begun):
    """Seconds to the first answer, to the last, the longest span between two, and whether all came."""
    first, last, longest, seen = None, begun, 0.0, 0
    while seen < waiting and time.monotonic() - last < 60:
        time.sleep(0.01)
        now, count = time.monotonic(), responder.answered
        if count > seen:
            if first is None:
                first = now - begun
            else:
                longest = max(longest, now - last)
            last, seen = now, count
    return 60.0 if first is None else first, last - begun, longest, seen >= waiting


def measure(rig, arguments, reason, waiting, database=None):
    port = free_port()
    config = Path(rig.path("chapar.yaml"))
    route = "routes:\n  - { use: { fallback: [ios, spare], fallback_after: 1 } }\n"
    with rig.responder() as spare:
        def write(backends, routes=""):
            text = config.read_text()
            head, rest = text.split("backends:\n")
            keyless = "".join(line for line in rest.splitlines(True) if line.startswith("auth:"))
            config.write_text(head + "backends:\n" + backends + routes + keyless)

        with rig.gateway(port, extra=backend("spare", spare.port) + (route if reason == "paused" else ""),
                         chapar=arguments.chapar, postgres=database and database.url) as gateway:
            post_all(gateway, waiting, backend="ios")
            if reason == "gone":
                write(backend("spare", spare.port))
                os.kill(gateway.pid, signal.SIGHUP)
            bytes_a_second, disk_a_second, cpu = idle(gateway, arguments.settle, arguments.seconds, database)
            with rig.responder(port=port) as responder:
                begun = time.monotonic()
                if reason == "gone":
                    write(backend("ios", port) + backend("spare", spare.port))
                    os.kill(gateway.pid, signal.SIGHUP)
                else:
                    with contextlib.suppress(urllib.error.HTTPError):  # A binary from before goes on when its breaker does.
                        gateway.post("/v1/backends/ios/retry", {})
                first, last, longest, is_whole = until_out(responder, waiting, begun)
    goals = bytes_a_second < 20_000 and first < 2 and longest < 2 and is_whole and spare.answered == 0
    return {
        "benchmark": "standing", "store": "postgres" if database else "sqlite", "reason": reason, "waiting": waiting,
        "written_bytes_per_second": round(bytes_a_second), "disk_bytes_per_second": round(disk_a_second),
        "idle_cpu": round(cpu, 4), "first_s": round(first, 2), "all_s": round(last, 2),
        "longest_gap_s": round(longest, 2), "went_elsewhere": spare.answered, "ok": goals,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chapar", default=str(Path(__file__).resolve().parents[2] / ".build/release/chapar"))
    parser.add_argument("--waiting", type=int, nargs="*", default=[20_000, 100_000])
    parser.add_argument("--settle", type=float, default=60)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--only", choices=["gone", "paused"])
    parser.add_argument("--postgres", action="store_true", help="with a private PostgreSQL server as the store")
    parser.add_argument("--json", help="write every figure there as well")
    arguments = parser.parse_args()
    results = []
    for reason in [arguments.only] if arguments.only else ["gone", "paused"]:
        for waiting in arguments.waiting:
            with contextlib.ExitStack() as stack:
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="chapar-bench-"))
                rig = stack.enter_context(Rig(folder, arguments.chapar))
                place = Path(tempfile.gettempdir()) / f"chapar-bench-pg-{reason}-{waiting}-{os.getpid()}"
                database = stack.enter_context(postgres(place, "max_wal_size=4GB")) if arguments.postgres else None
                results.append(measure(rig, arguments, reason, waiting, database))
                print(json.dumps(results[-1]), flush=True)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(results, indent=2))
    sys.exit(0 if all(result["ok"] for result in results) else 1)


if __name__ == "__main__":
    main()
