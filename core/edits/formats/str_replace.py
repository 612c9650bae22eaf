"""The `old_string` / `new_string` format: literal text, replaced once or everywhere; several edits as one batch."""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec import Struct

from core.edits.errors import EditError, format_part
from core.edits.matching.ladder import locate
from core.edits.matching.search_text import SearchText
from core.text.lines import apply_splices


class Replacement(Struct, frozen=True):
    """The text after a replacement, the rung that matched, the number of replacements, and the kinds of mistakes that
    were repaired in the new string."""

    text: str
    rung: str
    count: int
    slips: tuple[str, ...] = ()


def replace_string(text: str, old_string: str, new_string: str, *, replace_all: bool = False) -> Replacement:
    """Replace `old_string` in `text`; `$` and backslashes are literal. Raises `EditError`."""
    if old_string == new_string:
        raise EditError(
            "old_string and new_string are the same, so there is nothing to change.",
            hint="Give the new text in new_string, or drop the call.",
        )
    match = locate(SearchText(text), old_string, new_string, replace_all=replace_all)
    count = 1 if match.rung == "elided" else len(match.splices)
    return Replacement(apply_splices(text, match.splices), match.rung, count, match.slips)


class MultiEditResult(NamedTuple):
    """`rungs`: the rung on which every edit matched, in order; "" = its text was put into an empty file. `slips`: the
    kinds of mistakes that were repaired, including a repeated edit."""

    text: str
    rungs: tuple[str, ...]
    slips: tuple[str, ...] = ()


def apply_edits(text: str | None, arguments: Any) -> MultiEditResult:
    """Apply decoded arguments: `{old_string, new_string, replace_all?}`, a list of these, or `{edits: […]}`.

    Every edit applies to the text that the previous one left; all are applied or none. An empty `old_string` creates a
    file that is missing or empty. Raises `EditError`.
    """
    edits = arguments.get("edits", [arguments]) if isinstance(arguments, dict) else arguments
    if not isinstance(edits, list) or not edits:
        raise EditError("There are no edits.", hint="Give old_string and new_string, or a list of them in edits.")
    rungs = []
    slips: dict[str, None] = {}
    for number, edit in enumerate(edits, start=1):
        if edit in edits[: number - 1]:
            slips["repeated"] = None
            continue
        try:
            text, rung, edit_slips = _apply_edit(text, edit)
            rungs.append(rung)
            slips |= dict.fromkeys(edit_slips)
        except EditError as error:
            raise error.name_part(format_part("Edit", number, len(edits))) from error
    return MultiEditResult(text or "", tuple(rungs), tuple(slips))


def _apply_edit(text: str | None, edit: Any) -> tuple[str, str, tuple[str, ...]]:
    if not isinstance(edit, dict):
        raise EditError("An edit is not an object.", hint="Give old_string and new_string.")
    old, new = (_find_text(edit, *names) for names in (("old_string", "old_str"), ("new_string", "new_str")))
    if not old and not text:
        return new, "", ()
    if text is None:
        raise EditError("There is no such file.", hint="Create it with an empty old_string.")
    replacement = replace_string(text, old, new, replace_all=edit.get("replace_all") is True)
    return replacement.text, replacement.rung, replacement.slips


def _find_text(edit: dict[str, Any], *names: str) -> str:
    value = next((edit[name] for name in names if name in edit), None)
    if not isinstance(value, str):
        raise EditError(f"{names[0]} is {value!r}, not a text.", hint="Give old_string and new_string as texts.")
    return value
