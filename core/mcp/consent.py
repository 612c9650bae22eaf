"""The user's word on the servers of a project: a yes is bound to the hash of the entry that was shown (SAFETY I3).

It lies in the state directory, out of reach of the project and of the agent's commands.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, field

from core.mcp.server_config import ServerConfig
from core.permissions.state_file import StateFile

FILE_NAME = "mcp.json"


class ServerConsent(Struct, frozen=True, kw_only=True):
    """The answer of the user about one entry. `shown`: its text then; `tools`: digests of its tools when they were
    last told, by name."""

    hash: str = ""
    is_allowed: bool = False
    shown: str = ""
    tools: dict[str, str] = field(default_factory=dict)


class _ConsentBook(Struct, frozen=True, kw_only=True):
    workspaces: dict[str, dict[str, ServerConsent]] = field(default_factory=dict)


class ConsentStore:
    """The answers for one workspace. Raises `StateError` where the file can't be used."""

    def __init__(self, root: Path) -> None:
        self._name = str(root)
        self._file = StateFile(FILE_NAME, _ConsentBook)

    def find(self, name: str) -> ServerConsent:
        return self._file.read().workspaces.get(self._name, {}).get(name, ServerConsent())

    def get_answer(self, config: ServerConfig) -> bool | None:
        """Return the answer that holds for this very entry; None = it has to be asked for."""
        if not config.is_project:
            return True
        known = self.find(config.name)
        return known.is_allowed if known.hash == config.compute_hash() else None

    def describe_change(self, config: ServerConfig) -> str:
        """Return what is shown with the question: the entry, or how it differs from the one that had a yes."""
        before, now = self.find(config.name), config.describe()
        if not before.shown or not before.is_allowed:
            return now
        diff = difflib.unified_diff(before.shown.splitlines(), now.splitlines(), "allowed before", "now", lineterm="")
        return "\n".join(diff)

    def save(self, config: ServerConfig, *, is_allowed: bool) -> None:
        """Keep an answer about this very entry."""
        said = ServerConsent(hash=config.compute_hash(), is_allowed=is_allowed, shown=config.describe())
        self._replace(config.name, said)

    def note_tools(self, name: str, tools: Mapping[str, str]) -> tuple[str, ...]:
        """Keep the digests of a server's tools; return the names of those that differ from what was kept before."""
        known = self.find(name)
        if known.tools == tools:
            return ()
        self._replace(
            name, ServerConsent(hash=known.hash, is_allowed=known.is_allowed, shown=known.shown, tools=dict(tools))
        )
        return tuple(sorted({each for each, _ in known.tools.items() ^ tools.items()})) if known.tools else ()

    def _replace(self, name: str, said: ServerConsent) -> None:
        def change(book: _ConsentBook) -> _ConsentBook:
            here = book.workspaces.get(self._name, {}) | {name: said}
            return _ConsentBook(workspaces=book.workspaces | {self._name: here})

        self._file.update(change)
