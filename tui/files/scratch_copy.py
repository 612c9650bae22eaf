"""A scratch copy of a pending file, for the user's own editor: what is changed there comes back hunk by hunk.

The user's file stays as it is, and so does what the agent did not touch: a line outside of the hunks is no part of
what waits for a verdict.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Sequence
from difflib import SequenceMatcher
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

from core.protocol.review import Hunk

_LINE: Final = re.compile(r"[^\n]*\n|[^\n]+")


class ReturnedEdits(NamedTuple):
    """The new texts of hunks, by id. `outside`: how many places were changed where no hunk is."""

    texts: dict[str, str]
    outside: int = 0


class ScratchCopy:
    """A copy of `text` in a directory of its own, under the name of the file, so that the editor knows the language."""

    def __init__(self, path: str, text: str, *, parent: str | None) -> None:
        self._text = text
        self._directory = Path(tempfile.mkdtemp(prefix="agent-tui-", dir=parent))
        self.file = self._directory / PurePosixPath(path).name
        self.file.write_text(text, "utf-8", newline="")

    def read_edits(self, hunks: Sequence[Hunk]) -> ReturnedEdits:
        """Return what was changed. OSError: the copy can't be read any more."""
        edited_text = self.file.read_bytes().decode("utf-8", "replace")
        return match_edits(self._text, edited_text, hunks)

    def remove(self) -> None:
        shutil.rmtree(self._directory, ignore_errors=True)


def match_edits(before: str, after: str, hunks: Sequence[Hunk]) -> ReturnedEdits:
    """Match the edits of a text with the hunks in whose lines they are, or beside which lines were put in.

    A final newline that the editor has put in is none of the user's.
    """
    before, after = (text.replace("\r\n", "\n") for text in (before, after))
    if not before.endswith("\n"):
        after = after.removesuffix("\n")
    old, new = _LINE.findall(before), _LINE.findall(after)
    texts: dict[str, str] = {}
    outside = 0
    steps = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    edits = [step[1:] for step in steps if step[0] != "equal"]
    for start, end, new_start, new_end in reversed(edits):  # so that the lines above keep their numbers
        hunk = next((candidate for candidate in hunks if _holds(candidate, start, end)), None)
        if hunk is None:
            outside += 1
            continue
        first = hunk.new_start - 1
        lines = _LINE.findall(texts[hunk.id]) if hunk.id in texts else old[first : first + hunk.new_lines]
        lines[start - first : end - first] = new[new_start:new_end]
        texts[hunk.id] = "".join(lines)
    return ReturnedEdits(texts, outside)


def _holds(hunk: Hunk, start: int, end: int) -> bool:
    first = hunk.new_start - 1
    return not hunk.moves and first <= start and end <= first + hunk.new_lines
