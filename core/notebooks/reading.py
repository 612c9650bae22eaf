"""A notebook as a text whose lines are counted alike wherever it is read, searched, pointed at and mentioned.

To be searched it has the same lines, those of outputs empty: what was put out is of no use there, and may be anything.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

from core.notebooks.notebook import LARGEST, find_notebook, is_notebook_path
from core.notebooks.rendering import render_for_reading

_HEAD: Final = re.compile(r"(?:#|//|--) %% cell \d+ · (code|markdown|raw)(?: · id .*)?")
_LANGUAGE: Final = re.compile(r"(?:#|//|--) Notebook of \d+ cells?, (.+)\. edit_notebook edits it\.")


class CellLines(Struct, frozen=True):
    """The lines of a cell in the text of its notebook, from 1: `head` names it, `last` is the last one."""

    head: int
    last: int
    is_code: bool


def find_notebook_text(path: str, data: bytes, *, has_outputs: bool = True) -> str | None:
    """Return a notebook as it is read; None: it is none, it is not valid, or larger than `LARGEST`."""
    if not is_notebook_path(path) or len(data) > LARGEST:
        return None
    notebook = find_notebook(data)
    return render_for_reading(notebook, has_outputs=has_outputs).text if notebook is not None else None


def choose_limit(path: str, limit: int) -> int:
    """Return how many bytes of a file are read where `limit` is meant for text: of a notebook all that is shown."""
    return max(limit, LARGEST + 1) if is_notebook_path(path) else limit


def find_language(text: str) -> str:
    """Return the language of a notebook by its text, "" if that is none of one."""
    match = _LANGUAGE.fullmatch(text.partition("\n")[0])
    return match[1] if match else ""


def list_cells(text: str) -> list[CellLines]:
    """Return the cells of a notebook by its text. A line of a source that looks like a head is taken for one."""
    lines = text.removesuffix("\n").split("\n")
    heads = [(line_number, match) for line_number, line in enumerate(lines, 1) if (match := _HEAD.fullmatch(line))]
    ends = [line_number - 1 for line_number, _ in heads[1:]] + [len(lines)]
    return [
        CellLines(line_number, last, match[1] == "code") for (line_number, match), last in zip(heads, ends, strict=True)
    ]
