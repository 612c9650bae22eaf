"""The `old_string` / `new_string` format: literal text, one place or all of them."""

from __future__ import annotations

from core.edits.candidates import EditError
from core.edits.matching import Replacement, apply_replacement


def str_replace(text: str, old_string: str, new_string: str, *, replace_all: bool = False) -> Replacement:
    """Replace `old_string` in `text`; `$` and backslashes stand for themselves. Raises `EditError`."""
    if old_string == new_string:
        raise EditError(
            "old_string and new_string are the same, so there is nothing to change.",
            hint="Give the new text in new_string, or leave the call out.",
        )
    return apply_replacement(text, old_string, new_string, replace_all=replace_all)
