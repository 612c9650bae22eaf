"""Files that run by themselves or that steer the agent: what each of them does, in words.

Protected files (`is_protected`) act without anybody calling them, or change what the agent may do; they are accepted
one by one, each confirmed, and never in bulk. The others run when the user calls a tool that reads them, which is their
purpose: they are labelled, and accepted like any file. Names are compared as the most lenient file system would.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from itertools import pairwise
from typing import Final

from msgspec import Struct

from core.workspace.acting_content import find_acting_change
from core.workspace.file_names import fold_name, is_git_internal, is_plan
from core.workspace.protected_names import GIT_RISK, HOOK_RISK, LABELLED, PROTECTED, PYTHON_RISK, RiskyNames


class FileRisk(Struct, frozen=True):
    """The risk of a file. `risk` completes the sentence "it …": "runs by itself when …"."""

    risk: str
    is_protected: bool = False


class _RiskTable:
    def __init__(self, names: Iterable[RiskyNames]) -> None:
        self._directories: dict[tuple[str, ...], str] = {}
        self._files: dict[tuple[str, ...], str] = {}
        self._endings: dict[str, str] = {}
        self._patterns: list[tuple[re.Pattern[str], str]] = []
        for risky_names in names:
            endings = [name for name in risky_names.files.split() if name.startswith("*")]
            patterns = [name for name in risky_names.files.split() if "*" in name[1:]]
            files = [name for name in risky_names.files.split() if name not in (*endings, *patterns)]
            self._directories |= {tuple(name.split("/")): risky_names.risk for name in risky_names.directories.split()}
            self._files |= {tuple(name.split("/")): risky_names.risk for name in files}
            self._endings |= {name[1:]: risky_names.risk for name in endings}
            self._patterns += [(_compile_pattern(name), risky_names.risk) for name in patterns]
        self._any_pattern = re.compile("|".join(pattern.pattern for pattern, _ in self._patterns) or r"(?!)")
        self.first_parts = frozenset(name[0] for name in (*self._directories, *self._files) if len(name) > 1)

    def find_risk(self, parts: list[str]) -> str | None:
        """Return what is said of a path of folded names, None for nothing."""
        for part in (*zip(parts), *pairwise(parts)):
            if part in self._directories:
                return self._directories[part]
        known_risk = self._files.get((parts[-1],)) or self._files.get(tuple(parts[-2:]))
        known_risk = known_risk or next((risk for end, risk in self._endings.items() if parts[-1].endswith(end)), None)
        tail = "/".join(parts[-2:])
        if known_risk or not self._any_pattern.search(tail):
            return known_risk
        return next((risk for pattern, risk in self._patterns if pattern.search(tail)), None)


def _compile_pattern(name: str) -> re.Pattern[str]:
    """Compile a name in which `*` stands for anything within it, for the end of a path."""
    return re.compile(r"(?:\A|/)" + "[^/]*".join(map(re.escape, name.split("*"))) + r"\Z")


_IMPORT: Final = re.compile(rb"^import[ \t]", re.MULTILINE)  # a line that Python runs; weights of a model have none
_AUTOMATIC: Final = _RiskTable(PROTECTED)
_CALLED: Final = _RiskTable(LABELLED)


def is_protected(rel: str) -> bool:
    """True if a change of this path is never accepted in bulk; plan files (`is_plan`) are not protected."""
    lever = find_file_risk(rel)
    return lever is not None and lever.is_protected


def may_hold_protected(rel: str) -> bool:
    """True if a name below a directory of this name may be protected though its own is not (`.cargo`, `.github`)."""
    return fold_name(rel.rpartition("/")[2]) in _AUTOMATIC.first_parts


def find_file_risk(rel: str, old: bytes = b"", new: bytes = b"") -> FileRisk | None:
    """Return what a file does by itself or when called, if known. `old`, `new`: its content around a change."""
    parts = [fold_name(part) for part in rel.split("/")]
    if is_plan(rel):
        return None
    if is_git_internal(rel):
        return FileRisk(HOOK_RISK if "hooks" in parts else GIT_RISK, is_protected=True)
    if parts[-1].endswith(".pth") and (
        not {"site-packages", "dist-packages"}.isdisjoint(parts)
        or (_IMPORT.search(new) is not None and b"\0" not in new and new != old)
    ):
        return FileRisk(PYTHON_RISK, is_protected=True)
    if (risk := _AUTOMATIC.find_risk(parts)) is not None:
        return FileRisk(risk, is_protected=True)
    if acting := find_acting_change(parts[-1], old, new):
        return FileRisk(acting, is_protected=True)
    return FileRisk(call_risk) if (call_risk := _CALLED.find_risk(parts)) else None


def find_link_risk(rel: str, target: bytes) -> FileRisk | None:
    """Return what a symbolic link does if it leads out of the project, else None."""
    destination = posixpath.normpath(posixpath.join(posixpath.dirname(rel), target.decode("utf-8", "replace")))
    if destination.startswith("/") or destination.split("/")[0] == "..":
        return FileRisk("leads out of the project: what is written to it lands elsewhere", is_protected=True)
    return None
