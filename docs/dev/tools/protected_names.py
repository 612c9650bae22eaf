"""Writes the tables of protected and labelled names in `docs/review.md`: `python docs/dev/tools/protected_names.py`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[3]
TARGET: Final = ROOT / "docs" / "review.md"
_TABLE: Final = re.compile(r"(<!-- (protected|labelled) -->\n).*?(<!-- end -->)", re.DOTALL)
_NOTES: Final = {".cursor": " (except plans)"}


def page(text: str) -> str:
    """The text with its tables as the program has them."""
    from core.workspace.protected_files import LABELLED, PROTECTED

    tables = {"protected": PROTECTED, "labelled": LABELLED}
    return _TABLE.sub(lambda match: f"{match[1]}{chr(10).join(_rows(tables[match[2]]))}\n{match[3]}", text)


def _rows(table: tuple[object, ...]) -> Iterator[str]:
    from core.workspace.protected_files import RiskyNames

    yield "| names | why |"
    yield "|---|---|"
    for names in table:
        assert isinstance(names, RiskyNames)
        words = [f"`{word}`{_NOTES.get(word, '')}" for word in (*names.directories.split(), *names.files.split())]
        yield f"| {', '.join(words)} | {names.risk} |"


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    TARGET.write_text(page(TARGET.read_text(encoding="utf-8")), encoding="utf-8")
