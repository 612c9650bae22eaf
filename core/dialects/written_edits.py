"""Edits that a model with function calls writes into its text, detected as the text streams.

An edit is a tagged edit, a patch, SEARCH/REPLACE blocks below the name of their file, or a fence with nothing else in
it. It begins a line, and waits until it is complete and `accepts` has decided whether it is intended; otherwise it is
text. An intended call in the syntax of a template (see `leaked_calls`) is rejected and not run: the text around it may
quote a file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from msgspec import Struct

from core.dialects.dialect import (
    AnswerEnding,
    AnswerParser,
    AnswerPart,
    AnswerText,
    CallFinished,
    CallStarted,
    encode_arguments,
)
from core.dialects.leaked_calls import find_leak
from core.dialects.tags import TagParser
from core.edit_formats import BLOCKS, EDIT_TAGS, PATCH, PATCH_FRAME
from core.patterns import compile_lazily
from core.text.markup import MAX_FENCE_LINE, Fence, parse_opening_fence, track_fence

_TAGS: Final = tuple(EDIT_TAGS)
WRITTEN_CALL: Final = (
    "Nothing was run: your answer has a tool call ({}) as text. Send it again, in the required form. "
    "If you only meant to show it, answer again with it in a code fence."
)
_STARTS: Final = (*(f"<{name}" for name in _TAGS), PATCH_FRAME[0])
_OPEN_TAG = compile_lazily(rf"<({'|'.join(_TAGS)})(?=[\s>])[^\n]*>")
_SEARCH = compile_lazily(r"(?:<{5,9}|-{5,9}) SEARCH>?\s*")
_REPLACE = compile_lazily(r"(?:>{5,9}|\+{5,9}) REPLACE\s*")
_DIFF = compile_lazily(r"--- \S.*|diff --git .*|Index: .*")
_RANGE = compile_lazily(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_PATCH_ROWS: Final = (" ", "+", "-", "@@", "\\", "*** ", "diff --git ")
_PATCH_INFOS: Final = frozenset({"", "diff", "patch", "udiff", "apply_patch"})
_MAY_BE_FENCE = compile_lazily(r" {0,3}(?:`{1,2}|~{1,2}|`{3,}[^`]*|~{3,}.*)?")
_MAY_BE_SEARCH = compile_lazily(r"(?:<{1,9}|-{1,9})(?: S?E?A?R?C?H?>?)?\s*")
_MAY_BE_DIFF = compile_lazily(r"-{1,3}(?: .*)?|d(?:iff --git .*)?|I(?:ndex: .*)?")
_NAME = compile_lazily(r"[^\s`*:<>|\"']{1,300}")


class WrittenEdit(Struct, frozen=True, kw_only=True):
    """Text that may be an edit: a call of `tool`. `is_fenced`: in a code fence; `is_call`: a leaked call; `is_last`:
    the answer ends with it; `is_sure`: it is a call, whatever the tool."""

    tool: str
    arguments: str
    is_fenced: bool = False
    is_call: bool = False
    is_last: bool = False
    is_sure: bool = False


class _HeldText(Struct, kw_only=True):
    """Text that waits, below the `name` of a file.

    `is_sure` False: only its fence has been read. `closed`: the number of lines up to one that closes the fence, if
    that may also be a line of the patch in it; 0 = there is none.
    """

    lines: list[str]
    closing: str = ""
    fence: Fence | None = None
    name: str = ""
    is_sure: bool = True
    closed: int = 0


@dataclass
class WrittenEditParser(AnswerParser):
    """Parser of text and edits. `accepts` returns True for a candidate that is intended."""

    accepts: Callable[[WrittenEdit], bool]
    _text: list[str] = field(default_factory=list)
    _line: str = ""
    _is_passing: bool = False
    _held: _HeldText | None = None
    _fence: Fence | None = None
    _file_above: str = ""
    _count: int = 0
    _answer: list[str] = field(default_factory=list)

    def feed(self, text: str) -> list[AnswerPart]:
        self._answer.append(text)
        first, *rest = text.split("\n")
        self._read_piece(first)
        for piece in rest:
            self._end_line("\n")
            self._read_piece(piece)
        return self._take_parts()

    def finish(self) -> list[AnswerPart]:
        if self._line:
            self._end_line("")
        if self._held is not None and self._held.closed:
            self._close_fence(self._held)
        if self._held is not None:
            self._release_held()
        if not self._count:  # otherwise the turn continues with the results of the edits
            self._reject_leak()
        return self._take_parts()

    def _reject_leak(self) -> None:
        leak = find_leak("".join(self._answer))
        for call in leak.calls if leak else ():
            assert leak is not None
            candidate = WrittenEdit(
                tool=call.name, arguments=call.arguments, is_call=True, is_last=leak.is_last, is_sure=leak.is_sure
            )
            if self.accepts(candidate):
                self.ending = AnswerEnding(problem=WRITTEN_CALL.format(call.name))
                return

    def _take_parts(self) -> list[AnswerPart]:
        self._flush_text()
        parts, self._parts = self._parts, []
        return parts

    def _flush_text(self) -> None:
        if text := "".join(self._text):
            self._parts.append(AnswerText(text))
        self._text.clear()

    def _read_piece(self, piece: str) -> None:
        if self._is_passing:
            self._text.append(piece)
            self._line = (self._line + piece)[: MAX_FENCE_LINE + 1]
            return
        self._line += piece
        if self._held is not None and self._held.is_sure:
            return
        if len(self._line) > MAX_FENCE_LINE or not self._may_decide(self._line):
            self._pass_line()

    def _may_decide(self, line: str) -> bool:
        """True if an incomplete line may become one that begins or ends an edit."""
        if self._held is not None:  # the first line of a fence
            patchy = self._held.fence is not None and self._held.fence.info.lower() in _PATCH_INFOS
            return bool(
                not line.strip()
                or _MAY_BE_SEARCH.fullmatch(line)
                or (patchy and (_MAY_BE_DIFF.fullmatch(line) or _is_common_prefix(PATCH_FRAME[0], line)))
            )
        if self._fence is not None:
            return False
        starts = any(_is_common_prefix(start, line) for start in _STARTS)
        return starts or _MAY_BE_FENCE.fullmatch(line) is not None or _MAY_BE_SEARCH.fullmatch(line) is not None

    def _pass_line(self) -> None:
        line, self._line = self._line, ""
        if self._held is not None:
            self._release_held()
        self._text.append(line)
        self._line, self._is_passing = line, True

    def _release_held(self) -> None:
        """Pass waiting text on. A fence that it opened stays open."""
        held_text, self._held = self._held, None
        assert held_text is not None
        self._text.append("".join(held_text.lines))
        self._fence = held_text.fence if not held_text.is_sure else None

    def _end_line(self, end: str) -> None:
        line, passing = self._line, self._is_passing
        self._line, self._is_passing = "", False
        if self._held is not None:
            self._add_line(line, end)
        elif passing or not self._begin_holding(line, end):
            self._text.append(end if passing else line + end)
            self._track_line(line)

    def _track_line(self, line: str) -> None:
        """Track the open fence, and the name of a file for the following lines."""
        self._fence = track_fence(self._fence, line)
        if line.strip():
            self._file_above = _parse_file_name(line)

    def _begin_holding(self, line: str, end: str) -> bool:
        if self._fence is not None or len(line) > MAX_FENCE_LINE:
            return False
        if tag := _OPEN_TAG.match(line):
            self._held = _HeldText(lines=[line + end], closing=f"</{tag[1]}>")
        elif line.rstrip() == PATCH_FRAME[0]:
            self._held = _HeldText(lines=[line + end], closing=PATCH_FRAME[1])
        elif _SEARCH.fullmatch(line) and self._file_above:
            self._held = _HeldText(lines=[line + end], name=self._file_above)
        elif fence := parse_opening_fence(line):
            self._held = _HeldText(lines=[line + end], fence=fence, name=self._file_above, is_sure=False)
        else:
            return False
        if tag is not None:
            self._try_tagged(line)
        return True

    def _add_line(self, line: str, end: str) -> None:
        held_text = self._held
        assert held_text is not None
        held_text.lines.append(line + end)
        if not held_text.is_sure:
            self._decide_fence(held_text, line)
        elif held_text.fence is not None:
            self._add_fenced(held_text, held_text.fence, line)
        elif held_text.closing:
            self._try_tagged(line)
        elif _REPLACE.fullmatch(line):
            self._resolve_candidate(_build_block_edit(held_text.name, "".join(held_text.lines)))

    def _add_fenced(self, held_text: _HeldText, fence: Fence, line: str) -> None:
        """Read a line of a fenced edit. A bare fence within a patch closes it only if no row of the patch follows."""
        if held_text.closed and line.strip():
            if not line.startswith(_PATCH_ROWS) and not fence.is_closed_by(line):
                self._close_fence(held_text)
                return
            held_text.closed = 0
        if fence.is_closed_by(line):
            held_text.closed = len(held_text.lines)
            if _is_whole(held_text.lines[1:-1]):
                self._close_fence(held_text)

    def _close_fence(self, held_text: _HeldText) -> None:
        """End a fenced edit at the line that closed its fence, and read the lines after it again."""
        rest, held_text.lines = held_text.lines[held_text.closed :], held_text.lines[: held_text.closed]
        self._resolve_candidate(_parse_fenced(held_text))
        for row in rest:
            self._line = row.removesuffix("\n")
            self._end_line(row[len(self._line) :])

    def _decide_fence(self, held_text: _HeldText, line: str) -> None:
        assert held_text.fence is not None
        patchy = held_text.fence.info.lower() in _PATCH_INFOS
        has_path = bool(held_text.name or _parse_fence_path(held_text.fence))
        if (patchy and (line.rstrip() == PATCH_FRAME[0] or _DIFF.fullmatch(line))) or (
            has_path and _SEARCH.fullmatch(line)
        ):
            held_text.is_sure = True
        elif held_text.fence.is_closed_by(line):
            self._release_held()
            self._fence = None
        elif line.strip():
            self._release_held()

    def _try_tagged(self, line: str) -> None:
        """Try to end a tagged edit or a patch with this line; the reader of tags decides what ends it."""
        held_text = self._held
        assert held_text is not None
        if held_text.closing in line and (written_edit := _parse_tagged("".join(held_text.lines))):
            self._resolve_candidate(written_edit)

    def _resolve_candidate(self, candidate: WrittenEdit | None) -> None:
        held_text = self._held
        assert held_text is not None
        self._held = None
        if candidate is None or not self.accepts(candidate):
            self._text.append("".join(held_text.lines))
            return
        self._flush_text()
        self._parts.append(CallStarted(self._count, candidate.tool))
        self._parts.append(CallFinished(index=self._count, name=candidate.tool, arguments=candidate.arguments))
        self._count += 1


def _is_common_prefix(start: str, line: str) -> bool:
    return start.startswith(line) or line.startswith(start)


def _parse_tagged(text: str) -> WrittenEdit | None:
    """Parse the one complete edit in the text; None = the text is more, less or something else."""
    parser = TagParser()
    parts = [*parser.feed(text), *parser.finish()]
    calls = [part for part in parts if isinstance(part, CallFinished)]
    if len(calls) != 1 or calls[0].problem or any(isinstance(part, AnswerText) and part.text.strip() for part in parts):
        return None
    return WrittenEdit(tool=calls[0].name, arguments=calls[0].arguments)


def _parse_fenced(held_text: _HeldText) -> WrittenEdit | None:
    assert held_text.fence is not None
    body = "".join(held_text.lines[1:-1])
    first = next((line for line in held_text.lines[1:-1] if line.strip()), "").rstrip()
    if _SEARCH.fullmatch(first):
        return _build_block_edit(_parse_fence_path(held_text.fence) or held_text.name, body, is_fenced=True)
    if _is_open_patch(held_text.lines[1:-1]):
        return None
    return WrittenEdit(tool=PATCH.name, arguments=encode_arguments({"input": body}), is_fenced=True)


def _is_open_patch(lines: Sequence[str]) -> bool:
    """True if a patch begins in the lines and does not end."""
    start_count, end_count = (sum(line.rstrip() == frame for line in lines) for frame in PATCH_FRAME)
    return start_count > end_count


def _is_whole(lines: Sequence[str]) -> bool:
    """True if a patch has ended, or the last hunk of a diff has as many rows as its header says."""
    if any(line.rstrip() in PATCH_FRAME for line in lines):
        return not _is_open_patch(lines)
    headers = [index for index, line in enumerate(lines) if line.startswith("@@")]
    counts = _RANGE.match(lines[headers[-1]]) if headers else None
    if counts is None:
        return not headers
    rows = [line for line in lines[headers[-1] + 1 :] if not line.startswith("\\")]
    old, new = (sum(not line.startswith(sign) for line in rows) for sign in "+-")
    return old >= int(counts[1] or 1) and new >= int(counts[2] or 1)


def _build_block_edit(name: str, body: str, *, is_fenced: bool = False) -> WrittenEdit:
    return WrittenEdit(
        tool=BLOCKS.name, arguments=encode_arguments({"file_path": name, "diff": body}), is_fenced=is_fenced
    )


def _parse_fence_path(fence: Fence) -> str:
    """Return the file that an info string names: one with a folder or a suffix; "" = none."""
    word = fence.info.strip().rpartition(":")[2]
    return word if _NAME.fullmatch(word) and ("/" in word or "." in word) else ""


def _parse_file_name(line: str) -> str:
    """Return the file name that a whole line is, bare or as a heading, in bold or in backticks; "" = it is none."""
    bare = line.strip().strip("#*`: ").strip()
    return bare if _NAME.fullmatch(bare) else ""
