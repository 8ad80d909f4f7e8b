"""Faults to put back: tables of named changes of the source, found by their text and not by their line.

A file of faults is TOML. Each `[[fault]]` has a `name`, the `fault` in a sentence, the `test` that must fail (an expression for
`swift test --filter`) and `why` it matters; each `[[fault.change]]` of it has the `file`, the text `before` and the text `after`. The
search for `before` begins at the first line with the text `in` (a declaration's); without `in`, `before` must stand once in the file.
"""
import tomllib
from collections import Counter
from pathlib import Path


class Mutation:
    """A named fault: the changes of files that put it back."""

    def __init__(self, table, source):
        self.source, self.name = source, table.get("name", "?")
        self.fault, self.test, self.why = (table.get(key, "") for key in ("fault", "test", "why"))
        self.changes = table.get("change", [])
        self.files = sorted({change["file"] for change in self.changes})
        self._kept = {}

    def trouble(self, tree):
        """What keeps it from being put back into a tree; empty when nothing does."""
        if not (self.fault and self.test and self.why and self.changes):
            return "needs fault, test, why and a change"
        try:
            self._changed(tree)
        except LookupError as missing:
            return str(missing)
        return ""

    def apply(self, tree):
        """Puts the fault into a tree."""
        changed = self._changed(tree)
        self._kept = {path: path.read_text() for path in changed}
        for path, text in changed.items():
            path.write_text(text)

    def revert(self):
        """Takes the fault out of the tree again."""
        for path, text in self._kept.items():
            path.write_text(text)
        self._kept = {}

    def _changed(self, tree):
        texts = {}
        for change in self.changes:
            path = tree / change["file"]
            if path not in texts and not path.exists():
                raise LookupError(f"{change['file']} is not there")
            text = texts.get(path) or path.read_text()
            place = _place(text, change)
            texts[path] = text[:place] + change["after"] + text[place + len(change["before"]) :]
        return texts


def _place(text, change):
    """Where `before` begins."""
    begin = 0
    if "in" in change:
        found = text.find(change["in"])
        if found < 0:
            raise LookupError(f"{change['file']} has no text {change['in']!r}")
        begin = text.rfind("\n", 0, found) + 1
    elif text.count(change["before"]) > 1:
        raise LookupError(f"{change['file']} has this more than once; name the declaration with `in`:\n{change['before']}")
    place = text.find(change["before"], begin)
    if place < 0:
        raise LookupError(f"{change['file']} does not have this any more:\n{change['before']}")
    return place


def read(folder):
    """All faults of a folder, by name."""
    found = [
        Mutation(table, path) for path in sorted(Path(folder).glob("*.toml")) for table in tomllib.loads(path.read_text())["fault"]
    ]
    twice = [name for name, count in Counter(mutation.name for mutation in found).items() if count > 1]
    if twice:
        raise SystemExit(f"more than one fault is called {', '.join(twice)}")
    return sorted(found, key=lambda mutation: mutation.name)
