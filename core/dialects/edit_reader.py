"""Edits that a model with function calls writes into its text all the same: found as the text streams.

A tagged edit, a patch from `*** Begin Patch` to `*** End Patch`, SEARCH/REPLACE blocks below the name of their file,
and a fence that holds nothing but a patch or such blocks. Each begins at the start of a line. It is held back until it
is complete and somebody has said whether it is an edit; what is not, or is never completed, is text as it stands. What
is found does not depend on where the stream was cut.

A `<tool_call>` with a call in it stays text as well, but when it is meant the answer is objected to: it comes of a
server that hands on what its model writes and makes no function call of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from core.dialects.base import CallBegun, CallEnded, Ending, Heard, Said, as_json
from core.dialects.segments import Fence, opening_fence
from core.dialects.tag_reader import PATCH
from core.dialects.tags import EDIT_TOOL, PATCH_TOOL, TagListener

_CALL: Final = "tool_call"
_TAGS: Final = ("file-edit", "file_edit", "edit_file", "apply_patch", _CALL)
WRITTEN_CALL: Final = (
    "Nothing was run: your answer holds a tool call ({}) as text. Send it again, in the form that you were told of."
)
_STARTS: Final = (*(f"<{name}" for name in _TAGS), PATCH[0])
_OPEN_TAG = re.compile(rf"<({'|'.join(_TAGS)})(?=[\s>])[^\n]*>")
_SEARCH = re.compile(r"(?:<{5,9}|-{5,9}) SEARCH>?\s*")
_REPLACE = re.compile(r"(?:>{5,9}|\+{5,9}) REPLACE\s*")
_DIFF = re.compile(r"--- \S.*|diff --git .*|Index: .*")
_PATCH_INFOS: Final = frozenset({"", "diff", "patch", "udiff", "apply_patch"})
_MAY_BE_FENCE = re.compile(r" {0,3}(?:`{1,2}|~{1,2}|`{3,}[^`]*|~{3,}.*)?")
_MAY_BE_SEARCH = re.compile(r"(?:<{1,9}|-{1,9})(?: S?E?A?R?C?H?>?)?\s*")
_MAY_BE_DIFF = re.compile(r"-{1,3}(?: .*)?|d(?:iff --git .*)?|I(?:ndex: .*)?")
_NAME = re.compile(r"[^\s`*:<>|\"']{1,300}")
_LONGEST_LINE: Final = 512


class Candidate(Struct, frozen=True, kw_only=True):
    """What may be an edit: a call of `tool`. `fenced`: it stood in a code fence; `is_call`: it is no edit, but a call
    that was written out."""

    tool: str
    arguments: str
    fenced: bool = False
    is_call: bool = False


class _Held(Struct, kw_only=True):
    """What is held back. `name`: of the file, as it stood above; `sure` False: only its fence has been seen."""

    lines: list[str]
    close: str = ""
    fence: Fence | None = None
    name: str = ""
    sure: bool = True


class EditListener:
    """Hears text and edits. `accepts` says of each candidate whether it is meant."""

    def __init__(self, accepts: Callable[[Candidate], bool]) -> None:
        self._accepts = accepts
        self._heard: list[Heard] = []
        self._text: list[str] = []
        self._line = ""
        self._passing = False
        self._held: _Held | None = None
        self._fence: Fence | None = None
        self._above = ""
        self._count = 0
        self._ending = Ending()

    @property
    def ending(self) -> Ending:
        return self._ending

    def feed(self, text: str) -> list[Heard]:
        first, *rest = text.split("\n")
        self._part(first)
        for piece in rest:
            self._end_line("\n")
            self._part(piece)
        return self._taken()

    def finish(self) -> list[Heard]:
        self._end_line("")
        if self._held is not None:
            self._release()
        return self._taken()

    def _taken(self) -> list[Heard]:
        self._speak()
        heard, self._heard = self._heard, []
        return heard

    def _speak(self) -> None:
        if text := "".join(self._text):
            self._heard.append(Said(text))
        self._text.clear()

    def _part(self, piece: str) -> None:
        """A piece of a line, without its end."""
        if self._passing:
            self._text.append(piece)
            self._line = (self._line + piece)[: _LONGEST_LINE + 1]
            return
        self._line += piece
        if self._held is not None and self._held.sure:
            return
        if len(self._line) > _LONGEST_LINE or not self._may_begin(self._line):
            self._pass()

    def _may_begin(self, line: str) -> bool:
        """Whether a line that is not whole yet may become one that decides something."""
        if self._held is not None:  # the first line of a fence
            patchy = self._held.fence is not None and self._held.fence.info.lower() in _PATCH_INFOS
            return bool(
                not line.strip()
                or _MAY_BE_SEARCH.fullmatch(line)
                or (patchy and (_MAY_BE_DIFF.fullmatch(line) or _meets(PATCH[0], line)))
            )
        if self._fence is not None:
            return False
        starts = any(_meets(start, line) for start in _STARTS)
        return starts or _MAY_BE_FENCE.fullmatch(line) is not None or _MAY_BE_SEARCH.fullmatch(line) is not None

    def _pass(self) -> None:
        """The line is text; so is what was held back for it."""
        line, self._line = self._line, ""
        if self._held is not None:
            self._release()
        self._text.append(line)
        self._line, self._passing = line, True

    def _release(self) -> None:
        """What was held back is text. A fence that it opened stays open."""
        held, self._held = self._held, None
        assert held is not None
        self._text.append("".join(held.lines))
        self._fence = held.fence if not held.sure else None

    def _end_line(self, end: str) -> None:
        line, passing = self._line, self._passing
        self._line, self._passing = "", False
        if not line and not end:
            return
        if self._held is not None:
            self._add(line, end)
        elif passing or not self._begins(line, end):
            self._text.append(end if passing else line + end)
            self._after(line)

    def _after(self, line: str) -> None:
        """What a line of text leaves behind: an open fence or none, and the name of a file for what follows."""
        if self._fence is not None:
            self._fence = None if self._fence.closes(line) else self._fence
        elif len(line) <= _LONGEST_LINE:
            self._fence = opening_fence(line)
        if line.strip():
            self._above = _file_name(line)

    def _begins(self, line: str, end: str) -> bool:
        """Whether a whole line begins something to be held back."""
        if self._fence is not None or len(line) > _LONGEST_LINE:
            return False
        if tag := _OPEN_TAG.match(line):
            self._held = _Held(lines=[line + end], close=f"</{tag[1]}>")
        elif line.rstrip() == PATCH[0]:
            self._held = _Held(lines=[line + end], close=PATCH[1])
        elif _SEARCH.fullmatch(line) and self._above:
            self._held = _Held(lines=[line + end], name=self._above)
        elif fence := opening_fence(line):
            self._held = _Held(lines=[line + end], fence=fence, name=self._above, sure=False)
        else:
            return False
        if tag is not None:
            self._try(line)
        return True

    def _add(self, line: str, end: str) -> None:
        held = self._held
        assert held is not None
        held.lines.append(line + end)
        if not held.sure:
            self._decide(held, line)
        elif held.fence is not None:
            if held.fence.closes(line):
                self._settle(_fenced(held))
        elif held.close:
            self._try(line)
        elif _REPLACE.fullmatch(line):
            self._settle(_blocks(held.name, "".join(held.lines)))

    def _decide(self, held: _Held, line: str) -> None:
        """Whether the first line of a fence begins an edit."""
        assert held.fence is not None
        patchy = held.fence.info.lower() in _PATCH_INFOS
        named = bool(held.name or _named_by(held.fence))
        if (patchy and (line.rstrip() == PATCH[0] or _DIFF.fullmatch(line))) or (named and _SEARCH.fullmatch(line)):
            held.sure = True
        elif held.fence.closes(line):
            self._release()
            self._fence = None
        elif line.strip():
            self._release()

    def _try(self, line: str) -> None:
        """Whether a line ends a tagged edit or a patch: the reader of tags knows what counts as its end."""
        held = self._held
        assert held is not None
        if held.close in line and (found := _tagged("".join(held.lines))):
            self._settle(replace(found, is_call=held.close == f"</{_CALL}>"))

    def _settle(self, candidate: Candidate | None) -> None:
        held = self._held
        assert held is not None
        self._held = None
        meant = candidate is not None and self._accepts(candidate)
        if candidate is None or not meant or candidate.is_call:
            self._text.append("".join(held.lines))
            if candidate is not None and meant:
                self._ending = Ending(problem=WRITTEN_CALL.format(candidate.tool))
            return
        self._speak()
        self._heard.append(CallBegun(self._count, candidate.tool))
        self._heard.append(CallEnded(index=self._count, name=candidate.tool, arguments=candidate.arguments))
        self._count += 1


def _meets(start: str, line: str) -> bool:
    return start.startswith(line) or line.startswith(start)


def _tagged(text: str) -> Candidate | None:
    """The one complete edit that the text is; None if it is more, less or something else."""
    listener = TagListener()
    heard = [*listener.feed(text), *listener.finish()]
    calls = [each for each in heard if isinstance(each, CallEnded)]
    if len(calls) != 1 or calls[0].problem or any(isinstance(each, Said) and each.text.strip() for each in heard):
        return None
    return Candidate(tool=calls[0].name, arguments=calls[0].arguments)


def _fenced(held: _Held) -> Candidate | None:
    """What stands in a fence, as an edit."""
    assert held.fence is not None
    body = "".join(held.lines[1:-1])
    first = next((line for line in held.lines[1:-1] if line.strip()), "").rstrip()
    if _SEARCH.fullmatch(first):
        return _blocks(_named_by(held.fence) or held.name, body, fenced=True)
    return Candidate(tool=PATCH_TOOL, arguments=as_json({"input": body}), fenced=True)


def _blocks(name: str, body: str, *, fenced: bool = False) -> Candidate:
    return Candidate(tool=EDIT_TOOL, arguments=as_json({"file_path": name, "diff": body}), fenced=fenced)


def _named_by(fence: Fence) -> str:
    """The file that an info string names: one with a folder or an ending."""
    word = fence.info.strip().rpartition(":")[2]
    return word if _NAME.fullmatch(word) and ("/" in word or "." in word) else ""


def _file_name(line: str) -> str:
    """The file that a line consists of, bare or dressed up as a heading, in bold or in backticks; "" = it does not."""
    bare = line.strip().strip("#*`: ").strip()
    return bare if _NAME.fullmatch(bare) else ""
