"""Files that make something happen by themselves, or that steer the agent: what each of them does, in words.

Red levers (`is_red`) act without anybody calling them, or change what the agent may do; they are accepted one by one,
each confirmed, and never in bulk. The others run when the user calls a tool that reads them, which is what they are
there for: they are labelled, and accepted like any file. Names are compared as the most lenient file system would.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterable
from itertools import pairwise
from typing import Final

from msgspec import Struct

from core.workspace.lever_names import GIT, HOOK, LABELLED, PYTHON, RED, Names
from core.workspace.names import folded, is_git_internal, is_plan

# Scripts of a package.json that npm, yarn and pnpm run on their own when packages are installed.
_BY_THEMSELVES: Final = (
    *("preinstall", "install", "postinstall", "preprepare", "prepare", "postprepare", "prepublish", "dependencies"),
)


class Lever(Struct, frozen=True):
    """`risk` goes on where "it …" begins: "runs by itself when …"."""

    risk: str
    is_red: bool = False


class _Table:
    """`Names`, by what is looked for."""

    def __init__(self, names: Iterable[Names]) -> None:
        self._directories: dict[tuple[str, ...], str] = {}
        self._files: dict[tuple[str, ...], str] = {}
        self._endings: dict[str, str] = {}
        for each in names:
            self._directories |= dict.fromkeys((tuple(name.split("/")) for name in each.directories), each.risk)
            self._files |= dict.fromkeys(
                (tuple(name.split("/")) for name in each.files if not name.startswith("*")), each.risk
            )
            self._endings |= dict.fromkeys((name[1:] for name in each.files if name.startswith("*")), each.risk)

        self.begin = frozenset(name[0] for name in (*self._directories, *self._files) if len(name) > 1)

    def risk(self, parts: list[str]) -> str | None:
        """What is said of a path of folded names."""
        for part in (*zip(parts), *pairwise(parts)):
            if part in self._directories:
                return self._directories[part]
        found = self._files.get((parts[-1],)) or self._files.get(tuple(parts[-2:]))
        return found or next((risk for end, risk in self._endings.items() if parts[-1].endswith(end)), None)


_BY_ITSELF: Final = _Table(RED)
_CALLED: Final = _Table(LABELLED)


def is_protected(rel: str) -> bool:
    """Whether a change of this path is never accepted in bulk; plan files (`is_plan`) are not protected."""
    lever = lever_of(rel)
    return lever is not None and lever.is_red


def begins_a_red_name(rel: str) -> bool:
    """Whether a name below a directory of this name may be red though its own is not (`.cargo`, `.github`)."""
    return folded(rel.rpartition("/")[2]) in _BY_ITSELF.begin


def lever_of(rel: str, old: bytes = b"", new: bytes = b"") -> Lever | None:
    """What a file makes happen; None: nothing that is known. `old`, `new`: its content before and after a change."""
    parts = [folded(part) for part in rel.split("/")]
    if is_plan(rel):
        return None
    if (risk := _red(rel, parts)) is not None:
        return Lever(risk, is_red=True)
    if parts[-1] == "package.json" and (scripts := _changed_scripts(old, new)):
        return Lever(f"runs by itself when packages are installed ({', '.join(scripts)})", is_red=True)
    return Lever(called) if (called := _CALLED.risk(parts)) else None


def link_lever(rel: str, target: bytes) -> Lever | None:
    """What a symbolic link does, if it leads out of the project."""
    where = posixpath.normpath(posixpath.join(posixpath.dirname(rel), target.decode("utf-8", "replace")))
    if where.startswith("/") or where.split("/")[0] == "..":
        return Lever("leads out of the project: what is written to it lands elsewhere", is_red=True)
    return None


def _red(rel: str, parts: list[str]) -> str | None:
    if is_git_internal(rel):
        return HOOK if "hooks" in parts else GIT
    if parts[-1].endswith(".pth") and "site-packages" in parts:
        return PYTHON
    return _BY_ITSELF.risk(parts)


def _changed_scripts(old: bytes, new: bytes) -> list[str]:
    """Which of the scripts that run by themselves are added or changed."""
    before, after = _scripts(old), _scripts(new)
    return [name for name in _BY_THEMSELVES if name in after and after[name] != before.get(name)]


def _scripts(data: bytes) -> dict[str, object]:
    try:
        found = json.loads(data or b"{}")
    except ValueError:
        return {}
    scripts = found.get("scripts") if isinstance(found, dict) else None
    return scripts if isinstance(scripts, dict) else {}
