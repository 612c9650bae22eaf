"""Relations between paths of the project, which are relative to its root, with slashes and without `.` and `..`."""

from __future__ import annotations

from fnmatch import fnmatchcase
from itertools import accumulate


def list_parents(path: str) -> list[str]:
    """Return the directories above a path, outermost first, without the root."""
    return [*accumulate(path.split("/")[:-1], "{}/{}".format)]


def are_apart(one: str, other: str) -> bool:
    """Return True if neither path is below the other."""
    return not f"{one}/".startswith(f"{other}/") and not f"{other}/".startswith(f"{one}/")


def is_below(path: str, directory: str) -> bool:
    """Return True if a path is the directory or lies below it; "." is the project."""
    return directory in {".", path} or path.startswith(f"{directory}/")


def is_named_by(path: str, entry: str) -> bool:
    """Return True if a user's entry names a path: by itself, by a directory above it, or by a shell pattern, whose `*`
    also matches slashes."""
    return is_below(path, entry) or fnmatchcase(path, entry)
