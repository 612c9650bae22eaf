"""Small changes of code that the user found useless to try, by project: they are not tried any more.

One is remembered by the file and by what becomes of what, `>=` and `>`, since a line moves and changes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from core.permissions.state_file import StateFile

FILE_NAME: Final = "dismissed_mutants.json"
MAX_DISMISSED: Final = 500  # of one project
Pattern = tuple[str, str, str]  # the path, the old and the new text


class _Dismissals(Struct, frozen=True):
    workspaces: dict[str, tuple[Pattern, ...]] = field(default_factory=dict)


class DismissedMutants:
    """Those of one workspace. Every method raises `StateError` when the file can't be used."""

    def __init__(self, workspace: Path, *, is_persistent: bool) -> None:
        self._workspace = str(workspace)
        self._file = StateFile(FILE_NAME, _Dismissals, is_persistent=is_persistent)

    def load(self) -> frozenset[Pattern]:
        """Return all of them. Reads a file."""
        return frozenset(self._file.read().workspaces.get(self._workspace, ()))

    def add(self, pattern: Pattern) -> None:
        """Add one. Writes a file."""

        def append(before: _Dismissals) -> _Dismissals:
            known = tuple(dict.fromkeys((*before.workspaces.get(self._workspace, ()), pattern)))[-MAX_DISMISSED:]
            return replace(before, workspaces={**before.workspaces, self._workspace: known})

        self._file.update(append)
