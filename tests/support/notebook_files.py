"""Real notebooks (of nbformat's own tests and of seaborn's documentation), in the styles that files are found in."""

from __future__ import annotations

import json
import random
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import nbformat

from core.notebooks.editing import delete_cell, insert_cell, replace_source
from core.notebooks.notebook import parse_notebook

FOLDER: Final = Path(__file__).parent / "notebooks"
STYLES: Final = ("as found", "indent 2", "indent 4", "tabs", "crlf", "one line", "ascii", "mark", "text sources")


def read_notebook(name: str) -> bytes:
    return (FOLDER / f"{name}.ipynb").read_bytes()


@cache
def build_styles(name: str) -> dict[str, bytes]:
    """Return the notebook in every style."""
    data = read_notebook(name)
    known = json.loads(data)
    texts = {**known, "cells": [{**cell, "source": "".join(cell["source"])} for cell in known["cells"]]}
    styles = {
        "as found": data,
        "indent 2": _dump(known, indent=2),
        "indent 4": _dump(known, indent=4),
        "tabs": _dump(known, indent="\t"),
        "crlf": _dump(known, indent=1).replace(b"\n", b"\r\n"),
        "one line": _dump(known, separators=(",", ":")),
        "ascii": _dump({**known, "metadata": {**known["metadata"], "title": "Größe"}}, indent=1, ensure_ascii=True),
        "mark": b"\xef\xbb\xbf" + data,
        "text sources": _dump(texts, indent=1),
    }
    assert tuple(styles) == STYLES
    return styles


def _dump(value: Any, *, ensure_ascii: bool = False, **style: Any) -> bytes:
    return f"{json.dumps(value, ensure_ascii=ensure_ascii, **style)}\n".encode()


def validate(data: bytes) -> dict[str, Any]:
    """Return the notebook that these bytes are; raises if nbformat finds a fault in it."""
    known = json.loads(data.decode("utf-8-sig"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nbformat.validate(known)
    return known


def edit_by_chance(data: bytes, chance: random.Random, count: int) -> bytes:
    """Return the notebook after some edits."""
    for kind in _choose_kinds(chance, count):
        notebook = parse_notebook("n.ipynb", data)
        cells = notebook.cells
        cell = chance.choice(cells) if cells else None
        if kind == "new" or cell is None:
            place = chance.choice([0, len(cells), chance.randint(0, len(cells))])
            new_kind = chance.choice(["code", "markdown", "raw"])
            data = insert_cell(notebook, place, new_kind, f"new {chance.randint(0, 99)}\né", {})
        elif kind == "gone":
            data = delete_cell(notebook, cell)
        else:
            source = cell.source + "\nmore" if kind == "longer" else cell.source.replace("e", "\u20ac", 2)
            data = replace_source(notebook, cell, source)
    return data


def _choose_kinds(chance: random.Random, count: int) -> Iterator[str]:
    return (chance.choice(["new", "gone", "longer", "other"]) for _ in range(count))
