"""Relations between paths of the project, which are relative to its root, with slashes and without `.` and `..`."""

from __future__ import annotations

from itertools import accumulate


def list_parents(path: str) -> list[str]:
    """Return the directories above a path, outermost first, without the root."""
    return [*accumulate(path.split("/")[:-1], "{}/{}".format)]


def are_apart(one: str, other: str) -> bool:
    """Return True if neither path is below the other."""
    return not f"{one}/".startswith(f"{other}/") and not f"{other}/".startswith(f"{one}/")
