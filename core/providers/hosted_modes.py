"""Modes of hosted agents: of those that one offers, the one that it is set to.

Agents name their modes as they like and rename them, so a mode is chosen by what is offered and never by who offers it:
a table of names by their kind, the newest first. An agent that offers modes and none that is known is not started: in
a mode of its own choice it may decide what the user's rules are to decide, or be unable to run anything in the box.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

from msgspec import Struct


class HostedModeKind(StrEnum):
    """Kinds of modes. UNCONFINED: the agent leaves containment to others; ASKING: it asks before it runs a command;
    READING: it changes nothing; CONFINED: it builds a sandbox of its own, which can't be done in a box."""

    UNCONFINED = "unconfined"
    ASKING = "asking"
    READING = "reading"
    CONFINED = "confined"


# Ids, and names where an id is not known, without case, spaces and dashes.
_NAMES: Final[Mapping[HostedModeKind, tuple[str, ...]]] = {
    HostedModeKind.UNCONFINED: ("agentfullaccess", "fullaccess", "dangerfullaccess"),
    HostedModeKind.ASKING: ("default", "manual", "build", "code", "agent", "act", "write", "normal", "approve"),
    HostedModeKind.READING: ("plan", "readonly", "ask", "architect", "chat"),
    HostedModeKind.CONFINED: ("workspacewrite",),
}
_NO_WORD: Final = re.compile(r"[^a-z0-9]+")


class ModeOffer(Struct, frozen=True, kw_only=True):
    """The modes that an agent offers for a session, as id and name, and the `current` one. `option`: the id of the
    option of configuration that they are, "" = they are modes of the protocol."""

    modes: tuple[tuple[str, str], ...]
    current: str = ""
    option: str = ""

    def choose(self, *, only_reads: bool, configured_mode: str = "", confines_itself: bool = False) -> str | None:
        """Return the id of the mode to set, None = none of them fits. `only_reads`: its work is thrown away, so a mode
        that only reads comes first. `configured_mode`: the one of the user's configuration; `confines_itself`: the
        agent is known to build a sandbox of its own in all modes but the unconfined one."""
        unconfined_mode = self._find_first(HostedModeKind.UNCONFINED)
        has_sandbox = (
            confines_itself or unconfined_mode is not None or self._find_first(HostedModeKind.CONFINED) is not None
        )
        reading = None if has_sandbox or not only_reads else self._find_first(HostedModeKind.READING)
        if reading is not None:
            return reading
        if configured_mode:
            return configured_mode if any(configured_mode == identity for identity, _ in self.modes) else None
        return unconfined_mode if has_sandbox else self._find_first(HostedModeKind.ASKING)

    def is_reading(self, mode: str) -> bool:
        """True if a mode of these is known to change nothing."""
        names = dict(self.modes)
        return not {_simplify(mode), _simplify(names.get(mode, ""))}.isdisjoint(_NAMES[HostedModeKind.READING])

    def _find_first(self, kind: HostedModeKind) -> str | None:
        """Return the first mode of a kind in the order of the table, by its id before its name."""
        for index in (0, 1):
            for name in _NAMES[kind]:
                for mode in self.modes:
                    if _simplify(mode[index]) == name:
                        return mode[0]
        return None

    def describe(self) -> str:
        """Return the modes as a person reads them."""
        return ", ".join(identity for identity, _ in self.modes)


def read_mode_offer(response: Mapping[str, Any]) -> ModeOffer | None:
    """Return what an opened session, or an update about its options, says of modes; None: the agent offers none."""
    state = response.get("modes")
    if isinstance(state, dict):
        modes = tuple(_iterate_modes(state.get("availableModes"), "id"))
        if modes:
            return ModeOffer(modes=modes, current=str(state.get("currentModeId") or ""))
    options = response.get("configOptions")
    for option in options if isinstance(options, list) else ():
        if isinstance(option, dict) and option.get("category") == "mode" and isinstance(option.get("id"), str):
            modes = tuple(_iterate_modes(option.get("options"), "value"))
            if modes:
                return ModeOffer(modes=modes, current=str(option.get("currentValue") or ""), option=option["id"])
    return None


def _iterate_modes(raw_entries: Any, key: str) -> Iterator[tuple[str, str]]:
    """Yield id and name of each mode; options of configuration may stand in groups."""
    entries: Sequence[Any] = raw_entries if isinstance(raw_entries, list) else ()
    for entry in entries:
        if isinstance(entry, dict) and isinstance(entry.get(key), str):
            yield entry[key], str(entry.get("name") or "")
        elif isinstance(entry, dict) and "options" in entry:
            yield from _iterate_modes(entry["options"], key)


def _simplify(name: str) -> str:
    """Return a name as the table has it; some agents give addresses as ids, whose end is the name."""
    return _NO_WORD.sub("", name.rpartition("#")[2].lower())
