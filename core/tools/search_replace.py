"""search_replace: replace text in one file, or create the file; on the matching ladder of `core.edits`."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from core.edits.lines import split_lines, to_lf
from core.edits.matching import Replacement
from core.edits.str_replace import str_replace
from core.errors import ToolInputInvalid
from core.modes import Access
from core.tools.base import Editor, FileEditDetail, Outcome, Tool
from core.tools.targets import editable

_CONTEXT = 3
_MAX_ROWS = 40
RUNGS = {
    "line_endings": "other line endings",
    "line_numbers": "line numbers copied from a listing",
    "trailing_space": "other white space at line ends",
    "indentation": "another indentation; the new text was indented to fit",
    "blank_lines": "other blank lines",
    "look_alikes": "look-alike characters",
    "spacing": "other spacing within lines",
    "uneven_indentation": "an indentation that differs from line to line; check that of the new text",
    "elided": "a middle left out with dots",
    "entities": "HTML entities resolved",
    "escapes": "backslash escapes taken off",
    "trimmed": "other white space around it",
    "reflowed": "other line breaks and spacing",
    "other_case": "other capitals",
    "fuzzy": "a misspelt word",
}


class SearchReplace(Tool[Editor], frozen=True, kw_only=True):
    name: ClassVar[str] = "search_replace"
    access: ClassVar[Access] = Access.PROPOSE
    argument_names: ClassVar = {
        "path": "file_path",
        "target_file": "file_path",
        "filePath": "file_path",
        "old_str": "old_string",
        "new_str": "new_string",
        "oldString": "old_string",
        "newString": "new_string",
        "replaceAll": "replace_all",
    }

    file_path: Annotated[str, Meta(min_length=1, description="The file, relative to the workspace or absolute.")]
    old_string: Annotated[
        str, Meta(description="The text to replace, exactly as it stands in the file; empty only to create a file.")
    ]
    new_string: Annotated[str, Meta(description="The text that takes its place; empty to delete.")]
    replace_all: Annotated[bool, Meta(description="Replace every occurrence instead of the only one.")] = False

    def subject(self) -> str:
        return self.file_path

    def paths(self) -> tuple[str, ...]:
        return (self.file_path,)

    async def run(self, capability: Editor) -> Outcome:
        if not self.old_string:
            return self._create(capability)
        file = editable(capability, self.file_path)
        done = str_replace(file.text, self.old_string, self.new_string, replace_all=self.replace_all)
        detail = capability.write(self.file_path, file.encode(done.text))
        return Outcome(content=self._told(done), summary=f"+{detail.added} -{detail.removed}", detail=detail)

    def _create(self, capability: Editor) -> Outcome:
        if capability.stat(self.file_path) is not None:
            raise ToolInputInvalid(
                f"{self.file_path} exists, and old_string is empty.",
                hint="Give the text to replace, or use write to replace the whole file. Nothing was changed.",
            )
        detail = capability.write(self.file_path, self.new_string.encode("utf-8"))
        return created(self.file_path, detail)

    def _told(self, done: Replacement) -> str:
        how = f" Matched with {RUNGS[done.rung]}." if done.rung in RUNGS else ""
        count = f"{done.count} places" if done.count > 1 else "1 place"
        return f"Edited {self.file_path}: {count} replaced.{how}\n{_region(done)}"


def _region(done: Replacement) -> str:
    """The first changed place as it is now, with line numbers."""
    lines = split_lines(done.text).bodies
    first = max(1, done.start_line - _CONTEXT)
    last = min(len(lines), max(done.new_end_line, done.start_line - 1) + _CONTEXT)
    rows = [f"{number:6}|{to_lf(lines[number - 1])[:300]}" for number in range(first, last + 1)]
    if len(rows) <= _MAX_ROWS:
        return "\n".join(rows)
    half = _MAX_ROWS // 2
    return "\n".join([*rows[:half], f"[... {len(rows) - 2 * half} lines ...]", *rows[-half:]])


def created(path: str, detail: FileEditDetail) -> Outcome:
    """The answer for a new file."""
    return Outcome(content=f"Created {path}: {detail.added} lines.", summary=f"+{detail.added} new", detail=detail)
