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


def _is_lower_limit(user_value: float, project_value: float) -> bool:
    return project_value > 0 and (user_value == 0 or project_value < user_value)


def _is_own_directory(user_value: str, project_value: str) -> bool:
    """True if plans may be written to the project's `project_value`: a place in it, where the user chose none."""
    return user_value == PlanSettings().directory and is_inside_project(project_value)


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


def narrow_settings(
    user_settings: Settings, project_settings: Settings, table: Mapping[str, Any], name: str
) -> LoadedSettings:
    """Return the user's settings with the project's narrower values in them, and notices about the others."""
    notices: list[str] = []
    bounds: dict[tuple[str, str], Any] = {}
    for section, key in list_keys(table):
        if section == "lsp" and project_settings.lsp[key] == ServerSettings(
            enabled=False
        ):  # a server can be switched off
            server_settings = user_settings.lsp.get(key, ServerSettings())
            user_settings = msgspec.structs.replace(
                user_settings, lsp={**user_settings.lsp, key: msgspec.structs.replace(server_settings, enabled=False)}
            )
            continue
        if section == "tools":
            stricter = narrow_tool(user_settings.get_tool_settings(key), project_settings.tools[key])
            user_settings = msgspec.structs.replace(user_settings, tools={**user_settings.tools, key: stricter})
            lax = [field for field, value in table[section][key].items() if value != getattr(stricter, field)]
            notices += [_explain_laxer(name, f"tools.{key}.{field}") for field in lax]
            continue
        holder = getattr(user_settings, section) if section else user_settings
        project_section = getattr(project_settings, section) if section else project_settings
        narrower = NARROWER.get((section, key))
        dotted_key = f"{section}.{key}" if section else key
        if narrower is not None:
            bounds[section, key] = getattr(project_section, key)
        if (section, key) in ADDED_KEYS:
            both = tuple(dict.fromkeys((*getattr(holder, key), *getattr(project_section, key))))
            user_settings = msgspec.structs.replace(
                user_settings, **{section: msgspec.structs.replace(holder, **{key: both})}
            )
        elif narrower is None:
            notices.append(f"{name}: `{dotted_key}` was ignored: only your own configuration can set it.")
        elif narrower(getattr(holder, key), getattr(project_section, key)):
            new_section = msgspec.structs.replace(holder, **{key: getattr(project_section, key)})
            user_settings = msgspec.structs.replace(user_settings, **{section: new_section}) if section else new_section
        elif getattr(holder, key) != getattr(project_section, key):
            notices.append(_explain_laxer(name, dotted_key))
    return LoadedSettings(settings=user_settings, notices=tuple(notices), bounds=bounds)


def _explain_laxer(name: str, dotted_key: str) -> str:
    if dotted_key == "plans.directory":
        return (
            f"{name}: `{dotted_key}` was ignored: a project names a place in it, and only where you name none yourself."
        )
    return f"{name}: `{dotted_key}` was ignored: a project can only make your settings stricter."


def apply_bounds(settings: Settings, bounds: Mapping[tuple[str, str], Any]) -> Settings:
    """Return the settings as far as the project's bounds allow them."""
    for (section, key), bound in bounds.items():
        holder = getattr(settings, section) if section else settings
        if section and NARROWER[section, key](getattr(holder, key), bound):
            settings = msgspec.structs.replace(settings, **{section: msgspec.structs.replace(holder, **{key: bound})})
    return settings
