"""The settings of tools as they hold together: those of the user, the project, the mode and the request.

What is stricter holds.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final

from core.protocol.tools import ToolSettings

_WILD: Final = frozenset("*?[")


def narrow_tool(mine: ToolSettings, theirs: ToolSettings) -> ToolSettings:
    """Return what both allow. Paths that have nothing in common leave the tool switched off."""
    both = bool(mine.allowed_paths and theirs.allowed_paths)
    paths = _intersect(mine.allowed_paths, theirs.allowed_paths) if both else mine.allowed_paths or theirs.allowed_paths
    return ToolSettings(
        enabled=mine.enabled and theirs.enabled and not (both and not paths),
        scope="changed" if "changed" in {mine.scope, theirs.scope} else "workspace",
        allowed_paths=paths,
        require_approval=mine.require_approval or theirs.require_approval,
    )


def find_tool_settings(name: str, tables: Sequence[Mapping[str, ToolSettings]]) -> ToolSettings:
    """Return what all of these tables allow a tool."""
    found = ToolSettings()
    for table in tables:
        if name in table:
            found = narrow_tool(found, table[name])
    return found


def _intersect(mine: Sequence[str], theirs: Sequence[str]) -> tuple[str, ...]:
    """Return the entries of either that lie within the other's."""
    inner = [each for each in mine if is_path_allowed(each.rstrip("/"), theirs, with_parents=False)]
    inner += [each for each in theirs if is_path_allowed(each.rstrip("/"), mine, with_parents=False)]
    return tuple(dict.fromkeys(inner))


def is_path_allowed(path: str, allowed: Collection[str], *, with_parents: bool = True) -> bool:
    """Return True if a workspace-relative path is one of `allowed`, or below one. `with_parents`: so is a directory
    above one, since its list leads there."""
    return any(_matches(path, each, with_parents=with_parents) for each in allowed)


def _matches(path: str, entry: str, *, with_parents: bool) -> bool:
    wanted = entry.removeprefix("./").rstrip("/")
    if wanted in {"", ".", path} or path.startswith(f"{wanted}/") or fnmatchcase(path, wanted):
        return True
    literal = next((wanted[:at] for at, letter in enumerate(wanted) if letter in _WILD), wanted)
    return with_parents and (path == "." or literal.startswith(f"{path}/"))
