"""Selection of the parts of an edit by the file that they name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar


class Targeted(Protocol):
    """A part of an edit that names its file."""

    @property
    def path(self) -> str: ...


TargetedT = TypeVar("TargetedT", bound=Targeted)


def select_for_file(parts: Sequence[TargetedT], path: str) -> list[TargetedT]:
    """Select the parts for the file at `path` ("" = any); if all name one other file, that is another name of it."""
    file_parts = [part for part in parts if not path or is_same_file(part.path, path)]
    return file_parts or (list(parts) if len({part.path for part in parts}) == 1 else [])


def is_same_file(name: str, path: str) -> bool:
    """True if two paths name one file: either may omit directories at the start."""
    clean_name, clean_path = (spelling.replace("\\", "/").removeprefix("./").strip("/") for spelling in (name, path))
    return clean_name == clean_path or clean_name.endswith(f"/{clean_path}") or clean_path.endswith(f"/{clean_name}")
