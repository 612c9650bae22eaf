"""The file that a part of an edit is meant for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar


class Targeted(Protocol):
    """A part of an edit that names its file."""

    @property
    def path(self) -> str: ...


TargetedT = TypeVar("TargetedT", bound=Targeted)


def select_for_file(parts: Sequence[TargetedT], path: str) -> list[TargetedT]:
    """Select the parts for the file at `path` ("" = any); one other file that all name is another name of it."""
    mine = [each for each in parts if not path or is_same_file(each.path, path)]
    return mine or (list(parts) if len({each.path for each in parts}) == 1 else [])


def is_same_file(named: str, path: str) -> bool:
    """True if two paths name one file: one may leave out directories at the start."""
    ours, theirs = (each.replace("\\", "/").removeprefix("./").strip("/") for each in (named, path))
    return ours == theirs or ours.endswith(f"/{theirs}") or theirs.endswith(f"/{ours}")
