"""The user's decisions about servers: consent to the entry of a project's server, and servers and tools that are off.

A consent is bound to the hash of the entry that the user saw, so that a changed entry asks again. The file is in the
state directory, out of reach of the project and of the agent's commands; it holds the decisions per workspace.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from core.mcp.package_servers import find_missing
from core.mcp.server_config import ServerConfig
from core.permissions.state_file import StateFile

FILE_NAME = "mcp.json"
NO_CONSENT: Final = "the user has not approved it."
MAX_HELD_TEXT: Final = 200_000  # characters of the earlier descriptions of a server's held tools
MAX_REMOVED: Final = 2_000


class ServerConsent(Struct, frozen=True, kw_only=True):
    """The user's decisions about one server. `shown`: the entry as text when the user answered. `tools`: digests of the
    server's tools by name, as of the entry `tools_of`; `gone`: digests of tools that it had earlier under that entry.
    `off_tools`: names of tools that are off. `held`: the earlier descriptions by name of tools whose description
    changed, "" if it was not stored. `fetched`: the package that a yes was given to fetch."""

    hash: str = ""
    is_allowed: bool = False
    shown: str = ""
    tools: dict[str, str] = field(default_factory=dict)
    is_off: bool = False
    off_tools: tuple[str, ...] = ()
    tools_of: str = ""
    gone: dict[str, str] = field(default_factory=dict)
    held: dict[str, str] = field(default_factory=dict)
    fetched: str = ""

    def explain_off(self, tool: str) -> str | None:
        """Return why a tool may not be called; None: it may."""
        if tool in self.off_tools:
            return "the user has turned it off."
        return "its description has changed, and the user has not checked it yet." if tool in self.held else None


class _ConsentBook(Struct, frozen=True, kw_only=True):
    workspaces: dict[str, dict[str, ServerConsent]] = field(default_factory=dict)


class ConsentStore:
    """The decisions for one workspace. Raises `StateError` if the file can't be used.

    With `is_persistent` False, as in a private session, new decisions last as long as this object.
    """

    def __init__(self, root: Path, *, is_persistent: bool = True) -> None:
        self._root, self._name = root, str(root)
        self._file = StateFile(FILE_NAME, _ConsentBook, is_persistent=is_persistent)

    def find(self, name: str) -> ServerConsent:
        return self._file.read().workspaces.get(self._name, {}).get(name, ServerConsent())

    def get_answer(self, config: ServerConfig) -> bool | None:
        """Return the answer for exactly this entry; None: the user has to be asked: about each entry of a project or
        of another program, and about a package that has to be fetched."""
        package = find_missing(config.command, self._root)
        if not config.is_project and not config.is_offered and package is None:
            return True
        consent = self.find(config.name)
        if consent.hash != config.compute_hash():
            return None
        is_unasked = consent.is_allowed and package is not None and consent.fetched != package.spec
        return None if is_unasked else consent.is_allowed

    def explain_refusal(self, config: ServerConfig) -> str:
        """Explain why a server without a yes may not run."""
        package = find_missing(config.command, self._root)
        if package is None or config.is_project or config.is_offered:
            return NO_CONSENT
        return (
            f"its package {package.spec} is not fetched yet, and a server has no network for that. "
            f"`agent-tui mcp fetch {config.name}` fetches it, or a yes in /mcp."
        )

    def describe_change(self, config: ServerConfig) -> str:
        """Return the text of the question: the entry, or its diff to the entry that was allowed before."""
        before, now = self.find(config.name), config.describe()
        if not before.shown or not before.is_allowed:
            return now
        diff = difflib.unified_diff(before.shown.splitlines(), now.splitlines(), "allowed before", "now", lineterm="")
        return "\n".join(diff)

    def save(self, config: ServerConfig, *, is_allowed: bool) -> None:
        """Store an answer for exactly this entry."""
        package = find_missing(config.command, self._root)
        fetched = package.spec if package is not None and is_allowed else ""
        text = config.describe()
        self._change(config.name, hash=config.compute_hash(), is_allowed=is_allowed, shown=text, fetched=fetched)

    def forget(self, name: str) -> None:
        """Remove an answer, so that the user is asked again."""
        self._change(name, hash="", is_allowed=False, shown="")

    def switch(self, name: str, *, tool: str = "", is_off: bool) -> None:
        """Switch a server or one of its tools on or off. Switching on ends the hold of its tools."""
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
        """Store the digests of a server's tools. Return the names of tools that differ from the stored ones, and of
        those that are held from now on because they changed under the same entry. `before`: the earlier descriptions by
        name."""
        consent, entry = self.find(config.name), config.compute_hash()
        is_same = consent.tools_of == entry
        if is_same and consent.tools == tools:
            return (), ()
        # A tool that returns is compared with its earlier digest, so removal can't evade the check.
        removed_tools = consent.gone if is_same else {}
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
        retained_tools = dict(list(missing_tools.items())[-MAX_REMOVED:])
        self._change(config.name, tools=dict(tools), tools_of=entry, gone=retained_tools, held=held_tools)
        return tuple(sorted(changed_names | altered_names)), tuple(sorted(altered_names))

    def _change(self, name: str, **fields: Any) -> None:
        def change(book: _ConsentBook) -> _ConsentBook:
            consents = book.workspaces.get(self._name, {})
            consent = replace(consents.get(name, ServerConsent()), **fields)
            return _ConsentBook(workspaces=book.workspaces | {self._name: consents | {name: consent}})

        self._file.update(change)
