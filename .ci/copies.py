"""A copy of the tree, in which a script may delete and break things: shared by `.ci/without-plugin` and `.ci/faults`.

The copy is built in the tree's own place, in a mount namespace with a copy of .build, so that only what changed is compiled;
where namespaces are not to be had, in a place of its own, all of ours anew.
"""
import contextlib
import os
import shutil
import signal
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / ".build/debug/chapar"
FLAGS = os.environ.get("BUILD_FLAGS", "").split()  # With others, all that is copied would be built anew.


class Copy:
    """A copy of the tree; `tree` is where its files are edited."""

    def __init__(self, place):
        self.place, self.tree, self.kept, self.mounts = place, place / ROOT.name, place / "program-before", None
        self.tree.mkdir(parents=True)
        copy_tree(self.tree)

    def build(self):
        """Copies what was built, so that commands can build the rest."""
        self.mounts = _namespace()
        if self.mounts:
            _copy_build(self.tree / ".build")
        else:
            print("No mount namespaces here: all of ours is built anew, and at the next build in the tree as well.")
            if PROGRAM.exists():
                shutil.copy2(PROGRAM, self.kept)

    @property
    def scratch(self):
        """The folder for `--scratch-path`, as commands in the copy see it."""
        return ".build" if self.mounts else str(ROOT / ".build")

    def run(self, command, timeout=None, **options):
        """Runs a command in the copy and ends all that it started; gives its exit code, None after the timeout."""
        if self.mounts:
            script = f'mount --bind "{self.tree}" "{ROOT}" && cd "{ROOT}" && exec "$@"'
            command = [*self.mounts, "sh", "-c", script, "sh", *command]
        child = subprocess.Popen(command, cwd=self.tree, start_new_session=True, **options)
        try:
            return child.wait(timeout)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()

    def remove(self):
        """Removes it, and gives the tree its program back if that was built over."""
        if self.kept.exists():
            shutil.copy2(self.kept, PROGRAM)
        shutil.rmtree(self.place, ignore_errors=True)


@contextlib.contextmanager
def copied(name):
    """Gives a copy of the tree under .build, beside what is copied, so that a file system may share it; removes it afterwards."""
    place = ROOT / ".build" / name
    shutil.rmtree(place, ignore_errors=True)
    copy = Copy(place)
    try:
        yield copy
    finally:
        copy.remove()


def copy_tree(to):
    """Copies what belongs to the tree, with its times."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, capture_output=True)
    if listed.returncode == 0:
        names = [name for name in listed.stdout.decode().split("\0") if name]
    else:
        hidden = {".build", ".git", ".venv"}
        names = [str(path.relative_to(ROOT)) for path in ROOT.rglob("*") if not hidden & set(path.relative_to(ROOT).parts)]
    for name in names:
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name)


def _copy_build(to):
    """Copies what debug builds have left, if there were any; programs are linked again, so they stay."""
    ours = ("without", "faults", "planted", "checks", "release", "release.yaml", "docs", "symbols", "index-build")

    def copy(path, into):
        subprocess.run(["cp", "-a", "--reflink=auto", path, into], check=True)

    to.mkdir()
    for path in (ROOT / ".build").iterdir():
        if (path / "debug").is_dir() and not path.is_symlink():
            (to / path.name / "debug").mkdir(parents=True)
            for part in (path / "debug").iterdir():
                is_program = part.suffix == ".xctest" or (part.is_file() and not part.suffix)
                if not is_program:
                    copy(part, to / path.name / "debug")
        elif path.name not in ours:
            copy(path, to)


def _namespace():
    """The command that gives mounts of our own; None where there is none."""
    for command in (["unshare", "-m"], ["unshare", "-rm"]):
        probe = f"mount --bind {ROOT} {ROOT}"
        if subprocess.run([*command, "sh", "-c", probe], stderr=subprocess.DEVNULL).returncode == 0:
            return command
    return None
