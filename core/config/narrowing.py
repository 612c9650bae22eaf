"""A project's file may only narrow the user's settings.

A project is somebody else's text until its user says otherwise, so nothing in `.agent-tui/config.toml` can choose a
model, a server, a key or a laxer policy: such lines are ignored and reported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from core.config.schema import list_keys
from core.config.settings import LoadedSettings, PlanSettings, ServerSettings, Settings
from core.config.tool_settings import narrow_tool
from core.modes import Mode
from core.workspace.plan_folder import is_inside_project

_STRICTNESS = {"auto": 0, "confirm": 1, "human": 2}


def _is_lower_limit(mine: float, theirs: float) -> bool:
    return theirs > 0 and (mine == 0 or theirs < mine)


def _is_own_directory(mine: str, theirs: str) -> bool:
    """True if plans may be written to the project's `theirs`: a place in it, where the user chose none."""
    return mine == PlanSettings().directory and is_inside_project(theirs)


# Which keys of a project's file are heard, and when the project's value is narrower than the user's.
NARROWER: Mapping[tuple[str, str], Callable[[Any, Any], bool]] = {
    ("", "mode"): lambda _mine, theirs: theirs is Mode.ASK,
    ("limits", "max_steps"): _is_lower_limit,
    ("limits", "max_cost"): _is_lower_limit,
    ("limits", "max_tokens"): _is_lower_limit,
    ("commands", "policy"): lambda mine, theirs: _STRICTNESS[theirs] > _STRICTNESS[mine],
    ("edits", "policy"): lambda mine, theirs: theirs == "review" and mine == "auto",
    ("context", "compact_at"): lambda mine, theirs: theirs < mine,
    ("plans", "directory"): _is_own_directory,
    ("index", "enabled"): lambda mine, theirs: mine and not theirs,
    ("web", "enabled"): lambda mine, theirs: mine and not theirs,
    ("web", "robots"): lambda mine, theirs: theirs and not mine,
}
# What a project's file adds to the user's: rules that ask or refuse.
ADDED_KEYS = frozenset({("permissions", "ask"), ("permissions", "deny")})


def narrow_settings(mine: Settings, theirs: Settings, table: Mapping[str, Any], name: str) -> LoadedSettings:
    """Return the user's settings with the project's narrower values in them, and notices about the others."""
    notices: list[str] = []
    bounds: dict[tuple[str, str], Any] = {}
    for section, key in list_keys(table):
        if section == "lsp" and theirs.lsp[key] == ServerSettings(enabled=False):  # a server can be switched off
            own = mine.lsp.get(key, ServerSettings())
            mine = msgspec.structs.replace(mine, lsp={**mine.lsp, key: msgspec.structs.replace(own, enabled=False)})
            continue
        if section == "tools":
            stricter = narrow_tool(mine.get_tool_settings(key), theirs.tools[key])
            mine = msgspec.structs.replace(mine, tools={**mine.tools, key: stricter})
            lax = [each for each, value in table[section][key].items() if value != getattr(stricter, each)]
            notices += [_explain_laxer(name, f"tools.{key}.{each}") for each in lax]
            continue
        holder = getattr(mine, section) if section else mine
        offered = getattr(theirs, section) if section else theirs
        narrower = NARROWER.get((section, key))
        dotted = f"{section}.{key}" if section else key
        if narrower is not None:
            bounds[section, key] = getattr(offered, key)
        if (section, key) in ADDED_KEYS:
            both = tuple(dict.fromkeys((*getattr(holder, key), *getattr(offered, key))))
            mine = msgspec.structs.replace(mine, **{section: msgspec.structs.replace(holder, **{key: both})})
        elif narrower is None:
            notices.append(f"{name}: `{dotted}` was ignored: only your own configuration can set it.")
        elif narrower(getattr(holder, key), getattr(offered, key)):
            changed = msgspec.structs.replace(holder, **{key: getattr(offered, key)})
            mine = msgspec.structs.replace(mine, **{section: changed}) if section else changed
        elif getattr(holder, key) != getattr(offered, key):
            notices.append(_explain_laxer(name, dotted))
    return LoadedSettings(settings=mine, notices=tuple(notices), bounds=bounds)


def _explain_laxer(name: str, dotted: str) -> str:
    if dotted == "plans.directory":
        return f"{name}: `{dotted}` was ignored: a project names a place in it, and only where you name none yourself."
    return f"{name}: `{dotted}` was ignored: a project can only make your settings stricter."


def apply_bounds(settings: Settings, bounds: Mapping[tuple[str, str], Any]) -> Settings:
    """Return the settings as far as the project's bounds allow them."""
    for (section, key), theirs in bounds.items():
        holder = getattr(settings, section) if section else settings
        if section and NARROWER[section, key](getattr(holder, key), theirs):
            settings = msgspec.structs.replace(settings, **{section: msgspec.structs.replace(holder, **{key: theirs})})
    return settings
