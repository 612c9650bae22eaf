"""The user's word on servers: a yes to one of a project, bound to the hash of the entry that was shown (SAFETY I3), and
what is switched off.

It lies in the state directory, out of reach of the project and of the agent's commands, and holds for one workspace.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from core.mcp.server_config import ServerConfig
from core.permissions.state_file import StateFile

FILE_NAME = "mcp.json"
MAX_HELD_TEXT: Final = 200_000  # characters of what the held tools of a server said before: the file is read whole
MAX_GONE: Final = 2_000


class ServerConsent(Struct, frozen=True, kw_only=True):
    """The user's word on one server. `shown`: the text of its entry when it was answered about; `tools`: digests of its
    tools when they were last told, by name, under the entry `tools_of`; `gone`: of those that it had before under that
    entry; `off_tools`: the names of those that are switched off; `held`: what those said before that describe
    themselves otherwise now, by name, "" = that was not kept."""

    hash: str = ""
    is_allowed: bool = False
    shown: str = ""
    tools: dict[str, str] = field(default_factory=dict)
    is_off: bool = False
    off_tools: tuple[str, ...] = ()
    tools_of: str = ""
    gone: dict[str, str] = field(default_factory=dict)
    held: dict[str, str] = field(default_factory=dict)

    def explain_off(self, tool: str) -> str:
        """Return why a tool may not be called, "" = it may."""
        if tool in self.off_tools:
            return "the user has switched it off."
        return (
            "it describes itself otherwise than before, and the user has not looked at it yet."
            if tool in self.held
            else ""
        )


class _ConsentBook(Struct, frozen=True, kw_only=True):
    workspaces: dict[str, dict[str, ServerConsent]] = field(default_factory=dict)


class ConsentStore:
    """The answers for one workspace. Raises `StateError` where the file can't be used.

    With `is_persistent` False what is answered from now on lasts as long as this object: so it is in a private session.
    """

    def __init__(self, root: Path, *, is_persistent: bool = True) -> None:
        self._name = str(root)
        self._file = StateFile(FILE_NAME, _ConsentBook, is_persistent=is_persistent)

    def find(self, name: str) -> ServerConsent:
        return self._file.read().workspaces.get(self._name, {}).get(name, ServerConsent())

    def get_answer(self, config: ServerConfig) -> bool | None:
        """Return the answer that holds for this very entry; None = it has to be asked for."""
        if not config.is_project:
            return True
        consent = self.find(config.name)
        return consent.is_allowed if consent.hash == config.compute_hash() else None

    def describe_change(self, config: ServerConfig) -> str:
        """Return what is shown with the question: the entry, or how it differs from the one that had a yes."""
        before, now = self.find(config.name), config.describe()
        if not before.shown or not before.is_allowed:
            return now
        diff = difflib.unified_diff(before.shown.splitlines(), now.splitlines(), "allowed before", "now", lineterm="")
        return "\n".join(diff)

    def save(self, config: ServerConfig, *, is_allowed: bool) -> None:
        """Keep an answer about this very entry."""
        self._change(config.name, hash=config.compute_hash(), is_allowed=is_allowed, shown=config.describe())

    def forget(self, name: str) -> None:
        """Take an answer back, so that it is asked for again."""
        self._change(name, hash="", is_allowed=False, shown="")

    def switch(self, name: str, *, tool: str = "", is_off: bool) -> None:
        """Switch a server off or on; or one of its tools. What is switched on is no longer held."""
        consent = self.find(name)
        held_tools = (
            consent.held
            if is_off
            else {tool_name: text for tool_name, text in consent.held.items() if tool and tool_name != tool}
        )
        if not tool:
            self._change(name, is_off=is_off, held=held_tools)
            return
        others = {*consent.off_tools} - {tool}
        self._change(name, off_tools=tuple(sorted(others | {tool} if is_off else others)), held=held_tools)

    def record_tools(
        self, config: ServerConfig, tools: Mapping[str, str], before: Mapping[str, str]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Keep the digests of a server's tools. Return the names of those that differ from what was kept, and of those
        that are held from now on, as they changed under the same entry. `before`: what they said, by name."""
        consent, entry = self.find(config.name), config.compute_hash()
        is_same = consent.tools_of == entry
        if is_same and consent.tools == tools:
            return (), ()
        removed_tools = (
            consent.gone if is_same else {}
        )  # one that comes back is compared with what it was: going is no way out
        old_digests = {**removed_tools, **consent.tools} if is_same else {}
        changed_names = {name for name, _ in consent.tools.items() ^ tools.items()} if consent.tools else set[str]()
        altered_names = {name for name in old_digests.keys() & tools.keys() if old_digests[name] != tools[name]}
        held_tools = {name: text for name, text in consent.held.items() if name in old_digests or name in tools}
        room = MAX_HELD_TEXT - sum(map(len, held_tools.values()))
        for name in sorted(altered_names - held_tools.keys()):
            text = before.get(name, "")
            held_tools[name] = text if len(text) <= room else ""
            room -= len(held_tools[name])
        missing_tools = {name: digest for name, digest in old_digests.items() if name not in tools}
        retained_tools = dict(list(missing_tools.items())[-MAX_GONE:])
        self._change(config.name, tools=dict(tools), tools_of=entry, gone=retained_tools, held=held_tools)
        return tuple(sorted(changed_names | altered_names)), tuple(sorted(altered_names))

    def _change(self, name: str, **fields: Any) -> None:
        def change(book: _ConsentBook) -> _ConsentBook:
            consents = book.workspaces.get(self._name, {})
            consent = replace(consents.get(name, ServerConsent()), **fields)
            return _ConsentBook(workspaces=book.workspaces | {self._name: consents | {name: consent}})

        self._file.update(change)
