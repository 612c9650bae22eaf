"""Modes: one record per mode, with its grants and the fate of its commands' effects.

This table is enforced; prompts only explain it. The wire, the command line and the screen take their list of modes from
it. A mode's text for the model is `core/prompts/modes/<mode>.md.j2`; its screen is described by `tui/modes/<mode>.py`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple


class Access(StrEnum):
    """The kinds of resources that a tool can access. Every tool declares exactly one."""

    READ = "read"
    ASK = "ask"
    TODO = "todo"
    PLAN = "plan"
    PROPOSE = "propose"
    EXEC = "exec"
    JOB = "job"
    NET = "net"
    SPAWN = "spawn"
    EXTERNAL = "external"
    PROBE = "probe"


class ModeRules(NamedTuple):
    """The rules of one mode.

    `grants`: accesses of the tools that may run. `keeps_effects`: changes of a command are reviewed, and without a box
    the user is asked about every command; if False they are dropped, so no command is granted without a box. `tools`:
    tools that are described with the mode alone, and called through `call_tool`.
    """

    grants: frozenset[Access]
    keeps_effects: bool
    tools: tuple[str, ...] = ()


_OUTWARD: Final = frozenset({Access.NET, Access.SPAWN, Access.EXTERNAL})  # limited further by rules, in Plan and in Ask
_EVERY_MODE: Final = frozenset({Access.READ, Access.ASK, Access.EXEC, Access.JOB}) | _OUTWARD
_NOTHING: Final = ModeRules(grants=frozenset(), keeps_effects=False)
_COMMANDS: Final = frozenset({Access.EXEC, Access.JOB})


class Mode(StrEnum):
    """The four modes, in the order of `Shift+Tab`."""

    rules: ModeRules

    def __new__(cls, name: str, rules: ModeRules = _NOTHING) -> Mode:
        mode = str.__new__(cls, name)
        mode._value_ = name
        mode.rules = rules
        return mode

    AGENT = "agent", ModeRules(grants=_EVERY_MODE | {Access.TODO, Access.PROPOSE}, keeps_effects=True)
    PLAN = (
        "plan",
        ModeRules(grants=_EVERY_MODE | {Access.TODO, Access.PLAN}, keeps_effects=False, tools=("update_plan",)),
    )
    ASK = "ask", ModeRules(grants=_EVERY_MODE, keeps_effects=False)
    DEBUG = (
        "debug",
        ModeRules(
            grants=_EVERY_MODE | {Access.TODO, Access.PROPOSE, Access.PROBE},
            keeps_effects=True,
            tools=(
                "hypotheses_set",
                "hypothesis_verdict",
                "probe_add",
                "probe_remove",
                "reproduce",
                "read_probe_log",
            ),
        ),
    )


def is_granted(mode: Mode, access: Access, *, is_contained: bool) -> bool:
    """True if `mode` grants `access` on a machine that can (`is_contained`) or can't contain a command's effects."""
    needs_box = access in _COMMANDS and not mode.rules.keeps_effects
    return access in mode.rules.grants and (is_contained or not needs_box)


def find_modes_granting(access: Access, *, is_contained: bool) -> tuple[Mode, ...]:
    """Return the modes that grant `access`, for messages to the model or the user."""
    return tuple(mode for mode in Mode if is_granted(mode, access, is_contained=is_contained))
