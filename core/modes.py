"""Modes: which access each one grants. This table is the law; prompts only explain it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class Access(StrEnum):
    """The kinds of thing that a tool can reach. Every tool declares exactly one."""

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


class Mode(StrEnum):
    """The four modes, in the order that `Shift+Tab` rotates through."""

    AGENT = "agent"
    PLAN = "plan"
    ASK = "ask"
    DEBUG = "debug"


_EVERY_MODE = frozenset({Access.READ, Access.ASK})

GRANTS: Mapping[Mode, frozenset[Access]] = MappingProxyType(
    {
        Mode.AGENT: _EVERY_MODE | {Access.TODO, Access.PROPOSE, Access.EXEC, Access.JOB, Access.SPAWN},
        Mode.PLAN: _EVERY_MODE | {Access.TODO, Access.PLAN, Access.EXEC, Access.JOB, Access.SPAWN},
        Mode.ASK: _EVERY_MODE | {Access.EXEC, Access.JOB, Access.SPAWN},
        Mode.DEBUG: _EVERY_MODE | {Access.TODO, Access.PROPOSE, Access.EXEC, Access.JOB, Access.SPAWN, Access.PROBE},
    }
)

# A command in these modes must not leave a trace, so without a box that contains its effects it is not granted.
NEEDS_CONTAINMENT = frozenset((mode, access) for mode in (Mode.PLAN, Mode.ASK) for access in (Access.EXEC, Access.JOB))


def is_granted(mode: Mode, access: Access, *, is_contained: bool) -> bool:
    """True if `mode` grants `access` on a machine that can (`is_contained`) or can't contain a command's effects."""
    if access not in GRANTS[mode]:
        return False
    return is_contained or (mode, access) not in NEEDS_CONTAINMENT


def find_modes_granting(access: Access, *, is_contained: bool) -> tuple[Mode, ...]:
    """Return the modes that grant `access`, to tell the model or the user where something is possible."""
    return tuple(mode for mode in Mode if is_granted(mode, access, is_contained=is_contained))
