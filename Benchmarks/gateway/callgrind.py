"""A gateway under callgrind: its instructions, for the benchmarks `instructions` and `profile`."""
import re
import tempfile
from pathlib import Path

from bench import throughput
from postgres import postgres

PARTS = {"single": (1, 1_000, 32), "hundred": (100, 50, 8)}  # Notifications a POST, POSTs of the smaller run, connections.
TIMES = 5
SLOWNESS = 40  # How much longer a gateway may take than without valgrind.


def counted(rig, binary, out, **run):
    """Runs a gateway to its end; returns the notifications that it delivered."""
    program = Path(rig.path("counted"))
    program.write_text(f"""#!/bin/sh
[ "$1" = serve ] || exec '{binary}' "$@"
LD_PRELOAD='{rig.path("sigsuspend")}' exec valgrind --tool=callgrind --callgrind-out-file='{out}' '{binary}' "$@"
""")
    program.chmod(0o755)
    figures = throughput(rig, {"cpu_us": 1}, chapar=str(program), **run)
    if figures["lost"]:
        raise SystemExit(f"{binary}: {figures['lost']} are lost")
    return figures["delivered"]


def both_runs(rig, name, binary, folder, on_postgres, delay_ms, extra="", label=""):
    """Runs a part with few notifications and with five times as many: the files, each with what was delivered.

    `extra` are further sections of the configuration; `label` stands in the names of the files.
    """
    per_post, posts, connections = PARTS[name]
    found = []
    for times in (1, TIMES):
        run = {"name": name, "per_post": per_post, "posts": posts * times, "connections": connections, "delay_ms": delay_ms,
               "extra": extra}
        out = folder / f"{Path(binary).name}{label}-{name}{'-postgres' * on_postgres}-{times}.callgrind"
        if not on_postgres:
            found.append((out, counted(rig, binary, out, **run)))
            continue
        with tempfile.TemporaryDirectory(prefix="chapar-bench-pg-") as place:
            Path(place).chmod(0o755)  # The server may run as another user.
            with postgres(Path(place) / "postgres", "max_wal_size=4GB") as server:
                found.append((out, counted(rig, binary, out, **run, postgres=server.url)))
    return found


def total(out):
    """The instructions of a run."""
    return int(re.search(r"^totals: (\d+)", out.read_text(), re.M)[1])
