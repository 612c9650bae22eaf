"""Which paths git ignores, and which the user keeps from the agent (`.cursorignore`).

The nearest file that decides wins, and nothing below an ignored directory can be brought back (gitignore(5)).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.errors import PathRefused
from core.workspace.tree import Workspace

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

_LARGEST = 1_000_000
_GIT = (".gitignore",)
_WITHHELD = (".cursorignore",)
_Signature = tuple[int, int, int]


class IgnoreRules:
    """Rules are read when first needed and again when their file has changed."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._specs: dict[str, tuple[_Signature, GitIgnoreSpec | None]] = {}

    def is_ignored(self, rel: str, is_dir: bool) -> bool:
        """Whether git would ignore the path; `.git` itself is, what is withheld is too."""
        return ".git" in rel.split("/") or self._decided(rel, is_dir, _GIT) or self.is_withheld(rel, is_dir)

    def is_withheld(self, rel: str, is_dir: bool = False) -> bool:
        """Whether a `.cursorignore` keeps the path from the agent."""
        return self._decided(rel, is_dir, _WITHHELD)

    def refuse_withheld(self, rel: str) -> None:
        """Raise `PathRefused` for a path that the user keeps from the agent."""
        if self.is_withheld(rel):
            raise PathRefused(f"{rel!r} is excluded by .cursorignore.", code="path_withheld")

    def _decided(self, rel: str, is_dir: bool, files: tuple[str, ...]) -> bool:
        if rel == ".":
            return False
        parts = rel.split("/")
        stack = [(above, spec) for above in _above(parts) for file in files if (spec := self._spec(above, file))]
        if files == _GIT and (spec := self._spec("", ".git/info/exclude")):
            stack.insert(0, ("", spec))
        if not stack:
            return False
        return any(
            _matches(stack, "/".join(parts[:count]), is_dir or count < len(parts)) for count in range(1, len(parts) + 1)
        )

    def _spec(self, directory: str, file: str) -> GitIgnoreSpec | None:
        rel = f"{directory}{file}"
        try:
            found = (self._workspace.root / rel).stat()
        except OSError:
            self._specs.pop(rel, None)
            return None
        signature = (found.st_mtime_ns, found.st_size, found.st_ino)
        known = self._specs.get(rel)
        if known is None or known[0] != signature:
            known = self._specs[rel] = (signature, self._load(rel))
        return known[1]

    def _load(self, rel: str) -> GitIgnoreSpec | None:
        from pathspec import GitIgnoreSpec

        try:
            data = self._workspace.read_bytes(rel, _LARGEST)
        except PathRefused:
            return None
        lines = data.decode("utf-8", "replace").splitlines()
        try:
            return GitIgnoreSpec.from_lines(lines)
        except ValueError:
            # One pattern that means nothing must not undo the others.
            return GitIgnoreSpec.from_lines([line for line in lines if _is_pattern(line)])


def _is_pattern(line: str) -> bool:
    from pathspec import GitIgnoreSpec

    try:
        GitIgnoreSpec.from_lines([line])
    except ValueError:
        return False
    return True


def _above(parts: list[str]) -> list[str]:
    """The directories whose rules bind a path, outermost first, each "" or ending in "/"."""
    return ["".join(f"{part}/" for part in parts[:count]) for count in range(len(parts))]


def _matches(stack: list[tuple[str, GitIgnoreSpec]], rel: str, is_dir: bool) -> bool:
    for above, spec in reversed(stack):
        if not rel.startswith(above):
            continue
        decided = spec.check_file(rel[len(above) :] + "/" * is_dir).include
        if decided is not None:
            return decided
    return False
