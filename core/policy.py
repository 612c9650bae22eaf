"""Policy: whether a granted call may run, must be asked about, or is refused. It decides and never acts.

Rules use the grammar that users know, `Kind(pattern)`; the strictest match wins: deny, then ask, then allow. What no
rule speaks of is decided by the floor: what only reads or lands in the shadow runs, a command that nothing contains
is always asked about, and what leaves the machine is refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

from msgspec import Struct

from core.errors import ConfigError
from core.modes import Access

Choice = Literal["allow", "ask", "deny"]
_STRICTNESS: dict[Choice, int] = {"allow": 0, "ask": 1, "deny": 2}


class Decided(Struct, frozen=True, kw_only=True):
    """`reason` is one sentence for the user and the model."""

    choice: Choice
    reason: str = ""


class Rule(Struct, frozen=True, kw_only=True):
    """`Kind(pattern)` with its choice. In a pattern `*` stands for any run of characters."""

    choice: Choice
    kind: str
    pattern: str

    def matches(self, access: Access, subject: str) -> bool:
        return access in _KINDS[self.kind] and _compiled(self.pattern).fullmatch(subject) is not None


_KINDS: dict[str, frozenset[Access]] = {
    "Shell": frozenset({Access.EXEC}),
    "Read": frozenset({Access.READ}),
    "Write": frozenset({Access.PROPOSE}),
    "WebFetch": frozenset({Access.NET}),
    "Mcp": frozenset({Access.EXTERNAL}),
}
_RULE = re.compile(r"(?P<kind>[A-Za-z]+)\((?P<pattern>.+)\)")


@lru_cache(maxsize=512)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)


def parse_rule(text: str, choice: Choice) -> Rule:
    """`Shell(git *)` as a rule. Raises `ConfigError` for anything else."""
    found = _RULE.fullmatch(text.strip())
    if found is None or found["kind"] not in _KINDS:
        raise ConfigError(f"`{text}` is not a permission rule.", hint=f"Write one of {', '.join(_KINDS)}(pattern).")
    return Rule(choice=choice, kind=found["kind"], pattern=found["pattern"])


def decide(
    access: Access,
    subject: str,
    *,
    contained: bool,
    by_hand: bool = False,
    unasked: bool = False,
    rules: Sequence[Rule] = (),
) -> Decided:
    """What to do with a call that the mode grants. `subject` is its path, command or address, exactly.

    `by_hand`: commands are left to the user. `unasked`: those that are well contained need no question.
    """
    if by_hand and access is Access.EXEC:
        return Decided(choice="deny", reason="The user runs the commands here: say which one to run, and why.")
    floor = _floor(access, contained=contained, unasked=unasked)
    matching = [rule for rule in rules if rule.matches(access, subject)]
    if not matching:
        return floor
    strictest = max(matching, key=lambda rule: _STRICTNESS[rule.choice])
    spoken = Decided(choice=strictest.choice, reason=f"The rule {strictest.kind}({strictest.pattern}) says so.")
    if spoken.choice == "allow" and access is Access.EXEC and not contained:
        return floor
    return spoken if access not in _ABSENT else floor


_ABSENT = frozenset({Access.NET, Access.SPAWN, Access.EXTERNAL})


def _floor(access: Access, *, contained: bool, unasked: bool) -> Decided:
    match access:
        case Access.READ | Access.ASK | Access.TODO | Access.PLAN | Access.PROPOSE | Access.JOB:
            return Decided(choice="allow")
        case Access.EXEC if contained and unasked:
            return Decided(choice="allow", reason="What this command changes is held for the review.")
        case Access.EXEC:
            return Decided(
                choice="ask",
                reason="Each command is asked about." if contained else "Nothing contains this command's effects.",
            )
        case _:
            return Decided(choice="deny", reason="This program has no such access.")
