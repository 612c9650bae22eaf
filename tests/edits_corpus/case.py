from __future__ import annotations

import json
from typing import Any, Literal, NamedTuple

Kind = Literal["ordinary", "tolerance", "refusal"]
Row = tuple[str, str, str, str, str | None]  # name, path, original, edit, expected


class Case(NamedTuple):
    """`expected` None: the edit has to be refused."""

    name: str
    kind: Kind
    format: str
    original: str | None
    edit: str
    expected: Any
    path: str = "file.txt"

    def request(self) -> dict[str, Any]:
        return {
            "id": self.name,
            "format": self.format,
            "path": self.path,
            "original": self.original,
            "edit_text": self.edit,
        }


def dashed(*blocks: tuple[str, str]) -> str:
    return "".join(f"------- SEARCH\n{old}=======\n{new}+++++++ REPLACE\n" for old, new in blocks)


def angled(*blocks: tuple[str, str]) -> str:
    return "".join(f"<<<<<<< SEARCH\n{old}=======\n{new}>>>>>>> REPLACE\n" for old, new in blocks)


def strings(old: str, new: str, **more: bool) -> str:
    return json.dumps({"old_string": old, "new_string": new, **more})


def plan(*ranges: tuple[int, int | None, str]) -> str:
    return json.dumps([{"start_line": first, "end_line": last, "replacement": text} for first, last, text in ranges])


def swap(text: str, old: str, new: str, *, last: bool = False) -> str:
    """`text` with its one `old` (or the last of several) made `new`."""
    before, match, after = text.rpartition(old)
    assert match, old
    assert last or old not in before, old
    return before + new + after
