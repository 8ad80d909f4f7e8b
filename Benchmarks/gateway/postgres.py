"""A private PostgreSQL server for a benchmark, with the server's own settings but for what is named, and what it counts."""
import contextlib
import os
import subprocess
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "Examples/Cluster/postgres-server"


class Postgres:
    """A running server: reached by the socket in its folder."""

    def __init__(self, folder, child=None):
        self.folder, self.child = str(folder), child
        self.url = f"postgres://chapar@/postgres?host={self.folder}"

    def ask(self, statement):
        """The value that a statement gives, as text."""
        out = subprocess.run(["psql", "-h", self.folder, "-U", "chapar", "-d", "postgres", "-Atc", statement],
                             check=True, capture_output=True, text=True)
        return out.stdout.strip()

    def crash(self):
        """Ends the server as a crash of its machine would."""
        self._say("crash", "crashed")

    def start(self):
        """Starts it again."""
        self._say("start", "ready")

    def _say(self, word, expected):
        self.child.stdin.write(word + "\n")
        self.child.stdin.flush()
        line = self.child.stdout.readline().strip()
        if line != expected:
            raise RuntimeError(f"PostgreSQL: {word}: {line}")

    @property
    def cpu(self):
        """Seconds of CPU that the server's processes have used, those that have ended included."""
        first = int(Path(self.folder, "data/postmaster.pid").read_text().split()[0])
        ticks = 0
        for entry in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                fields = entry.read_text().rsplit(")", 1)[1].split()
                if int(entry.parent.name) == first:
                    ticks += sum(map(int, fields[11:15]))
                elif int(fields[1]) == first:
                    ticks += sum(map(int, fields[11:13]))
        return ticks / os.sysconf("SC_CLK_TCK")

    def counters(self):
        """Commits and bytes of write-ahead log since the server began."""
        # A session reports what it counted after a while only.
        self.ask("SELECT pg_stat_force_next_flush()")
        commits = self.ask("SELECT sum(xact_commit) FROM pg_stat_database")
        return {"commits": int(commits), "wal": int(float(self.ask("SELECT pg_current_wal_insert_lsn() - '0/0'")))}


@contextlib.contextmanager
def postgres(folder, *settings, within=()):
    """Starts a server in a folder that is not there yet, by a command if one is given; it ends with the context."""
    child = subprocess.Popen([*within, str(SCRIPT), str(folder), *settings], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        line = child.stdout.readline().strip()
        if line != "ready":
            raise RuntimeError(f"PostgreSQL does not start: {line}")
        yield Postgres(folder, child)
    finally:
        child.stdin.close()
        child.wait()
