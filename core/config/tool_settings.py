"""The settings of tools as they hold together: those of the user, the project, the mode and the request.

What is stricter holds.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final

from core.protocol.tools import ToolSettings

_WILD: Final = frozenset("*?[")


def narrow_tool(settings: ToolSettings, other: ToolSettings) -> ToolSettings:
    """Return what both allow. Paths that have nothing in common leave the tool switched off."""
    both = bool(settings.allowed_paths and other.allowed_paths)
    paths = (
        _intersect(settings.allowed_paths, other.allowed_paths)
        if both
        else settings.allowed_paths or other.allowed_paths
    )
    return ToolSettings(
        enabled=settings.enabled and other.enabled and not (both and not paths),
        scope="changed" if "changed" in {settings.scope, other.scope} else "workspace",
        allowed_paths=paths,
        require_approval=settings.require_approval or other.require_approval,
    )


def find_tool_settings(name: str, tables: Sequence[Mapping[str, ToolSettings]]) -> ToolSettings:
    """Return what all of these tables allow a tool."""
    tool_settings = ToolSettings()
    for table in tables:
        if name in table:
            tool_settings = narrow_tool(tool_settings, table[name])
    return tool_settings


def _intersect(paths: Sequence[str], other_paths: Sequence[str]) -> tuple[str, ...]:
    """Return the entries of either that lie within the other's."""
    inner = [path for path in paths if is_path_allowed(path.rstrip("/"), other_paths, with_parents=False)]
    inner += [path for path in other_paths if is_path_allowed(path.rstrip("/"), paths, with_parents=False)]
    return tuple(dict.fromkeys(inner))


def is_path_allowed(path: str, allowed_paths: Collection[str], *, with_parents: bool = True) -> bool:
    """Return True if a workspace-relative path is one of `allowed_paths`, or below one. `with_parents`: so is a
    directory above one, since its list leads there."""
    return any(_matches(path, entry, with_parents=with_parents) for entry in allowed_paths)


def _matches(path: str, entry: str, *, with_parents: bool) -> bool:
    pattern = entry.removeprefix("./").rstrip("/")
    if pattern in {"", ".", path} or path.startswith(f"{pattern}/") or fnmatchcase(path, pattern):
        return True
    literal = next((pattern[:index] for index, letter in enumerate(pattern) if letter in _WILD), pattern)
    return with_parents and (path == "." or literal.startswith(f"{path}/"))
