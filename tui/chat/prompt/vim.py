"""Vim's keys for the prompt: a state machine that turns keys, a text and a cursor into edits. It knows no widget."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, Literal, NamedTuple

from core.patterns import compile_lazily
from tui.chat.prompt import vim_motions as m
from tui.chat.prompt.vim_motions import (
    OBJECTS,
    find_first_letter,
    find_line_end,
    find_line_start,
    find_object,
    move_line,
)

VimMode = Literal["insert", "normal", "visual", "lines"]
Request = Literal["older", "newer", "search"]  # an action of the prompt instead of an edit
MAX_PUT: Final = 100_000  # characters that one key can put into the text
Action = Callable[["VimBuffer", str], None]
REDO: Final = "\x12"
MAX_COUNT: Final = 999
_NAMED_KEYS: Final = {
    "backspace": "h",
    "delete": "x",
    "space": "l",
    "left": "h",
    "right": "l",
    "home": "0",
    "end": "$",
    "ctrl+r": REDO,
}
_MOTION: Final = r"[hjkl0^_$wWeEbBG;,%{}]|gg|[fFtT]."
_OBJECT: Final = f"[ia][{re.escape(OBJECTS)}]"
_NORMAL: Final = compile_lazily(
    rf"(?P<count>[1-9]\d*)?(?:(?P<operator>[dcy])(?P<inner>[1-9]\d*)?"
    rf"(?:(?P<object>{_OBJECT})|(?P<moved>{_MOTION})|(?P<line>(?P=operator)))"
    rf"|(?P<motion>{_MOTION})|(?P<action>r.|[xXsSDCYpPuiIaAoOJ~vV./{REDO}]))",
    re.DOTALL,
)
_VISUAL: Final = compile_lazily(
    rf"(?P<count>[1-9]\d*)?(?:(?P<object>{_OBJECT})|(?P<motion>{_MOTION})|(?P<action>r.|[dxXcsyYpPuUJ~ovV]))",
    re.DOTALL,
)
_NORMAL_PREFIX: Final = compile_lazily(r"(?:[1-9]\d*)?(?:[dcy](?:[1-9]\d*)?[iafFtTg]?|[fFtTgr])?")
_VISUAL_PREFIX: Final = compile_lazily(r"(?:[1-9]\d*)?[iafFtTgr]?")


class Edit(NamedTuple):
    """The characters from `start` to before `end` become `text`."""

    start: int
    end: int
    text: str


class Yank(NamedTuple):
    """The text that was last deleted or copied; whole lines end without their newline."""

    text: str = ""
    is_lines: bool = False


class VimBuffer:
    """The text, cursor and mode during a key. `anchor`: the other end of the selection; `repeats`: how often
    inserted text is repeated."""

    def __init__(self, text: str, cursor: int, *, anchor: int, mode: VimMode, register: Yank) -> None:
        self.text, self.cursor, self.anchor = text, cursor, anchor
        self.mode, self.register = mode, register
        self.count, self.is_counted, self.repeats = 1, False, False
        self.edits: list[Edit] = []
        self.undone = 0
        self.request: Request | None = None

    def put(self, start: int, end: int, text: str) -> None:
        """Replace a part of the text; the cursor moves behind the new part."""
        start, end = max(start, 0), min(end, len(self.text))
        if self.text[start:end] != text:
            self.edits.append(Edit(start, end, text))
            self.text = self.text[:start] + text + self.text[end:]
        self.cursor = start + len(text)

    def begin_insert(self, offset: int, *, repeats: bool = False) -> None:
        self.cursor, self.mode, self.repeats = min(max(offset, 0), len(self.text)), "insert", repeats

    @property
    def line(self) -> tuple[int, int]:
        """The offsets at which the line of the cursor begins and ends."""
        return find_line_start(self.text, self.cursor), find_line_end(self.text, self.cursor)

    @property
    def selected(self) -> tuple[int, int]:
        """The offsets at which the selection begins and is over; of whole lines without the last newline."""
        start, end = sorted((self.anchor, self.cursor))
        if self.mode == "lines":
            return find_line_start(self.text, start), find_line_end(self.text, end)
        return start, min(end + 1, len(self.text))


def operate(buffer: VimBuffer, operator: str, start: int, end: int, *, is_lines: bool = False) -> None:
    """Delete (`d`), change (`c`) or copy (`y`) a part of the text into the register."""
    if is_lines:
        start, end = find_line_start(buffer.text, start), find_line_end(buffer.text, max(start, end))
    if start >= end and not is_lines:
        if operator == "c":
            buffer.begin_insert(start)
        return
    buffer.register = Yank(buffer.text[start:end], is_lines)
    if operator == "y":
        buffer.cursor = buffer.cursor if is_lines and start <= buffer.cursor <= end else start
    elif operator == "c":
        buffer.put(start, end, "")
        buffer.begin_insert(start)
    elif is_lines:
        _delete_lines(buffer, start, end)
    else:
        buffer.put(start, end, "")


def _delete_lines(buffer: VimBuffer, start: int, end: int) -> None:
    if end < len(buffer.text):
        buffer.put(start, end + 1, "")
    else:
        buffer.put(max(start - 1, 0), end, "")
    buffer.cursor = find_first_letter(buffer.text, min(buffer.cursor, len(buffer.text)))


def _delete_letters(buffer: VimBuffer, key: str) -> None:
    start, end = buffer.line
    if key == "X":
        operate(buffer, "d", max(buffer.cursor - buffer.count, start), buffer.cursor)
    else:
        operate(buffer, "c" if key == "s" else "d", buffer.cursor, min(buffer.cursor + buffer.count, end))


def _operate_on_rest(buffer: VimBuffer, key: str) -> None:
    """Apply `D` and `C` to the rest of the line, `S` and `Y` to whole lines."""
    last = move_line(buffer.text, buffer.cursor, buffer.count - 1, 0)
    if key in "SY":
        operate(buffer, "c" if key == "S" else "y", buffer.cursor, last, is_lines=True)
    else:
        operate(buffer, key.lower(), buffer.cursor, find_line_end(buffer.text, last))


def _put(buffer: VimBuffer, key: str) -> None:
    text, is_lines = buffer.register
    count = min(buffer.count, MAX_PUT // max(len(text), 1))
    start, end = buffer.line
    if not count or not (text or is_lines):
        return
    if not is_lines:
        offset = buffer.cursor if key == "P" or start == end else buffer.cursor + 1
        buffer.put(offset, offset, text * count)
        buffer.cursor -= 1
        return
    block = "\n".join([text] * count)
    buffer.put(*((start, start, f"{block}\n") if key == "P" else (end, end, f"\n{block}")))
    buffer.cursor = find_first_letter(buffer.text, start if key == "P" else end + 1)


def _begin_insert(buffer: VimBuffer, key: str) -> None:
    start, end = buffer.line
    places = {
        "i": buffer.cursor,
        "a": min(buffer.cursor + 1, end),
        "I": find_first_letter(buffer.text, start),
        "A": end,
    }
    buffer.begin_insert(places[key], repeats=True)


def _open_line(buffer: VimBuffer, key: str) -> None:
    start, end = buffer.line
    offset = end if key == "o" else start
    buffer.put(offset, offset, "\n")
    buffer.begin_insert(end + 1 if key == "o" else start)


def _join(buffer: VimBuffer, _: str) -> None:
    for _time in range(max(buffer.count - 1, 1)):
        end = find_line_end(buffer.text, buffer.cursor)
        if end == len(buffer.text):
            return
        below = find_first_letter(buffer.text, end + 1)
        is_apart = end > 0 and not buffer.text[end - 1].isspace() and below < find_line_end(buffer.text, end + 1)
        buffer.put(end, below, " " if is_apart else "")
        buffer.cursor = end


def _swap_case(buffer: VimBuffer, _: str) -> None:
    end = min(buffer.cursor + buffer.count, buffer.line[1])
    buffer.put(buffer.cursor, end, buffer.text[buffer.cursor : end].swapcase())


def _overwrite(buffer: VimBuffer, key: str) -> None:
    end = buffer.cursor + buffer.count
    if end <= buffer.line[1]:
        buffer.put(buffer.cursor, end, key[1] * buffer.count)
        buffer.cursor -= 1


def _undo(buffer: VimBuffer, key: str) -> None:
    buffer.undone = buffer.count if key == "u" else -buffer.count


def _select(buffer: VimBuffer, key: str) -> None:
    buffer.anchor, buffer.mode = buffer.cursor, "visual" if key == "v" else "lines"


def _search_history(buffer: VimBuffer, _: str) -> None:
    buffer.request = "search"


NORMAL_ACTIONS: Final[Mapping[str, Action]] = {
    **dict.fromkeys("xXs", _delete_letters),
    **dict.fromkeys("SDCY", _operate_on_rest),
    **dict.fromkeys("pP", _put),
    **dict.fromkeys("iIaA", _begin_insert),
    **dict.fromkeys("oO", _open_line),
    **dict.fromkeys("u\x12", _undo),
    **dict.fromkeys("vV", _select),
    "J": _join,
    "~": _swap_case,
    "r": _overwrite,
    "/": _search_history,
}


def _operate_on_selection(buffer: VimBuffer, key: str) -> None:
    operator = {"x": "d", "s": "c"}.get(key.lower(), key.lower())
    (start, end), is_lines = buffer.selected, buffer.mode == "lines" or key in "XY"
    buffer.mode = "normal"
    operate(buffer, operator, start, end, is_lines=is_lines)
    buffer.cursor = start if operator == "y" else buffer.cursor


def _put_over(buffer: VimBuffer, _: str) -> None:
    (start, end), is_lines, put = buffer.selected, buffer.mode == "lines", buffer.register
    text = put.text if is_lines or not put.is_lines else f"\n{put.text}\n"
    buffer.register = Yank(buffer.text[start:end], is_lines)
    buffer.put(start, end, text)
    buffer.cursor, buffer.mode = max(buffer.cursor - 1, start), "normal"


def _change_selected(buffer: VimBuffer, key: str) -> None:
    (start, end), change = buffer.selected, _CASES.get(key[0])
    text = buffer.text[start:end]
    new = change(text) if change else "".join(char if char == "\n" else key[1] for char in text)
    buffer.put(start, end, new)
    buffer.cursor, buffer.mode = start, "normal"


def _join_selected(buffer: VimBuffer, key: str) -> None:
    start, end = buffer.selected
    buffer.count, buffer.cursor, buffer.mode = buffer.text[start:end].count("\n") + 1, start, "normal"
    _join(buffer, key)


def _swap_selection_ends(buffer: VimBuffer, _: str) -> None:
    buffer.anchor, buffer.cursor = buffer.cursor, buffer.anchor


def _switch_visual_mode(buffer: VimBuffer, key: str) -> None:
    mode = "visual" if key == "v" else "lines"
    buffer.mode = "normal" if buffer.mode == mode else mode  # type: ignore[assignment]


_CASES: Final[Mapping[str, Callable[[str], str]]] = {"~": str.swapcase, "u": str.lower, "U": str.upper}


VISUAL_ACTIONS: Final[Mapping[str, Action]] = {
    **dict.fromkeys("dxXcsyY", _operate_on_selection),
    **dict.fromkeys("pP", _put_over),
    **dict.fromkeys("~uUr", _change_selected),
    **dict.fromkeys("vV", _switch_visual_mode),
    "J": _join_selected,
    "o": _swap_selection_ends,
}


class Reaction(NamedTuple):
    """The reaction to a key: edits in order, and the cursor behind them. `anchor`: the other end of the selection,
    None = no selection; `undone`: number of changes to undo (negative: to redo)."""

    cursor: int
    edits: tuple[Edit, ...] = ()
    anchor: int | None = None
    undone: int = 0
    request: Request | None = None


class VimKeys:
    """The state of Vim's keys for one text. It starts in insert mode."""

    def __init__(self) -> None:
        self.mode: VimMode = "insert"
        self.pending_keys = ""
        self._register = Yank()
        self._search: m.LetterSearch | None = None
        self._change = ""  # the keys of the last change, and the text that it inserted
        self._typed = ""
        self._inserting: tuple[str, int, int] | None = None  # the text, the cursor and the count when typing began
        self._column: int | None = None  # that j and k go back to

    @property
    def title(self) -> str:
        """The mode in Vim's words, with the pending keys; "" in insert mode."""
        names = {"insert": "", "normal": "NORMAL", "visual": "VISUAL", "lines": "VISUAL LINE"}
        return f"{names[self.mode]} {self.pending_keys}".strip()

    def insert(self) -> None:
        """Start in insert mode, as a new text does."""
        self.mode, self.pending_keys, self._inserting = "insert", "", None

    def press(self, key: str, text: str, cursor: int, anchor: int | None = None) -> Reaction | None:
        """React to a key, named as Textual does or a character. None: it has no meaning here, the widget's counts."""
        if self.mode == "insert":
            return self._leave_insert(text, cursor) if key == "escape" else None
        if key == "escape":
            return self._leave(text, cursor)
        sign = _NAMED_KEYS.get(key, key)
        if len(sign) != 1:
            return None
        # the letter after r, f or t may be a blank
        letter = " " if key == "space" and self.pending_keys[-1:] in tuple("rfFtT") else sign
        return self._read(letter, text, min(cursor, len(text)), anchor)

    def _leave(self, text: str, cursor: int) -> Reaction | None:
        """Cancel pending keys, then the selection; a third Escape is left to the program."""
        was_idle = self.mode == "normal" and not self.pending_keys
        self.mode, self.pending_keys = "normal", ""
        return None if was_idle else Reaction(clamp(text, cursor))

    def _read(self, letter: str, text: str, cursor: int, anchor: int | None) -> Reaction:
        is_visual = self.mode in {"visual", "lines"}
        self.pending_keys += letter
        buffer = VimBuffer(
            text, cursor, anchor=cursor if anchor is None else anchor, mode=self.mode, register=self._register
        )
        if match := (_VISUAL if is_visual else _NORMAL).fullmatch(self.pending_keys):
            keys, self.pending_keys = self.pending_keys, ""
            self._run(buffer, match, keys)
        elif not (_VISUAL_PREFIX if is_visual else _NORMAL_PREFIX).fullmatch(self.pending_keys):
            self.pending_keys = ""
        return self._adopt_buffer(buffer)

    def _adopt_buffer(self, buffer: VimBuffer) -> Reaction:
        """Adopt the state of the buffer, and move the cursor to a valid position."""
        if buffer.mode == "insert":
            self._inserting = (buffer.text, buffer.cursor, buffer.count if buffer.repeats else 1)
        self.mode, self._register = buffer.mode, buffer.register
        cursor = min(buffer.cursor, len(buffer.text)) if buffer.mode == "insert" else clamp(buffer.text, buffer.cursor)
        anchor = clamp(buffer.text, buffer.anchor) if buffer.mode in {"visual", "lines"} else None
        return Reaction(cursor, tuple(buffer.edits), anchor, buffer.undone, buffer.request)

    def _run(self, buffer: VimBuffer, match: re.Match[str], keys: str) -> None:
        parts = match.groupdict()
        counts = [int(digits[:6]) for digits in (parts["count"], parts.get("inner")) if digits]
        buffer.count, buffer.is_counted = 1, bool(counts)
        for count in counts:
            buffer.count = min(buffer.count * count, MAX_COUNT)
        is_vertical = (parts["motion"] or "") in {"j", "k"}
        self._column = self._column if is_vertical else None
        if buffer.mode in {"visual", "lines"}:
            self._run_visual(buffer, parts)
            return
        if parts["action"] == ".":
            self._repeat(buffer)
        elif operator := parts["operator"]:
            self._run_operator(buffer, operator, parts)
        elif motion := parts["motion"]:
            self._run_motion(buffer, motion)
        else:
            NORMAL_ACTIONS[parts["action"][0]](buffer, parts["action"])
        if buffer.mode == "insert" or (buffer.edits and parts["action"] != "."):
            self._change, self._typed = keys, ""

    def _run_motion(self, buffer: VimBuffer, motion: str) -> None:
        cursor = buffer.cursor
        target = self._find(buffer, motion)
        if target is not None:
            buffer.cursor = target
        is_at_edge = target is not None and m.find_line_start(buffer.text, target) == m.find_line_start(
            buffer.text, cursor
        )
        if motion in {"j", "k"} and is_at_edge and buffer.mode == "normal":
            buffer.cursor, buffer.request = cursor, "older" if motion == "k" else "newer"

    def _find(self, buffer: VimBuffer, motion: str) -> int | None:
        text, cursor, count = buffer.text, buffer.cursor, buffer.count
        if motion in {"j", "k"}:
            self._column = cursor - m.find_line_start(text, cursor) if self._column is None else self._column
            return m.move_line(text, cursor, count if motion == "j" else -count, self._column)
        if motion in {"gg", "G"}:
            return m.go_to_line(text, count if buffer.is_counted or motion == "gg" else MAX_COUNT)
        if motion in {";", ","}:
            if self._search is None:
                return None
            search = self._search if motion == ";" else self._search.reverse()
            return m.find_letter(text, cursor, count, search, is_repeated=True)
        if motion[0] in "fFtT":
            self._search = m.LetterSearch(motion[0], motion[1])
            return m.find_letter(text, cursor, count, self._search)
        return m.MOTIONS[motion](text, cursor, count)

    def _run_operator(self, buffer: VimBuffer, operator: str, parts: dict[str, str | None]) -> None:
        """Carry out `d`, `c` or `y` over an object, the way of a motion, or whole lines."""
        text, cursor = buffer.text, buffer.cursor
        if parts["line"]:
            operate(buffer, operator, cursor, m.move_line(text, cursor, buffer.count - 1, 0), is_lines=True)
        elif name := parts["object"]:
            if span := find_object(text, cursor, name):
                operate(buffer, operator, *span, is_lines=name[1] == "p")
        elif motion := parts["moved"]:
            self._operate_to(buffer, operator, motion)

    def _operate_to(self, buffer: VimBuffer, operator: str, motion: str) -> None:
        text, cursor = buffer.text, buffer.cursor
        if operator == "c" and motion in {"w", "W"} and text[cursor : cursor + 1].strip():
            end = m.MOTIONS[motion.replace("w", "e").replace("W", "E")](text, cursor - 1, buffer.count) + 1
            operate(buffer, operator, cursor, max(end, cursor))
            return
        if (target := self._find(buffer, motion)) is None:
            return
        is_lines = motion in m.LINEWISE
        start, end = sorted((cursor, target))
        key = self._search.key if motion in {";", ","} and self._search else motion[0]
        if not is_lines and key in m.INCLUSIVE and (target > cursor or motion in {"%", "e", "E"}):
            end += 1
        if motion in {"w", "W"} and "\n" in text[cursor:end]:
            end = cursor + (len(text[cursor:end].rstrip()) or text[cursor:end].index("\n"))
        operate(buffer, operator, start, min(end, len(text)), is_lines=is_lines)

    def _run_visual(self, buffer: VimBuffer, parts: dict[str, str | None]) -> None:
        if motion := parts["motion"]:
            self._run_motion(buffer, motion)
        elif name := parts["object"]:
            span = find_object(buffer.text, buffer.cursor, name)
            if span and span[0] < span[1]:
                buffer.anchor, buffer.cursor = span[0], span[1] - 1
        elif action := parts["action"]:
            VISUAL_ACTIONS[action[0]](buffer, action)

    def _repeat(self, buffer: VimBuffer) -> None:
        """Repeat the last change, with its inserted text."""
        match = _NORMAL.fullmatch(self._change) if self._change else None
        if match is None:
            return
        keys, typed_text, times = self._change, self._typed, buffer.count
        for _ in range(min(times, 50)):
            self._run(buffer, match, keys)
            if buffer.mode == "insert":
                insertion = typed_text * (buffer.count if buffer.repeats else 1)
                buffer.put(buffer.cursor, buffer.cursor, insertion)
                buffer.cursor = max(buffer.cursor - 1, m.find_line_start(buffer.text, buffer.cursor))
                buffer.mode = "normal"
            buffer.cursor = clamp(buffer.text, buffer.cursor)
        self._change, self._typed = keys, typed_text

    def _leave_insert(self, text: str, cursor: int) -> Reaction:
        """Change from insert to normal mode; the inserted text is the growth of the text since."""
        buffer = VimBuffer(text, min(cursor, len(text)), anchor=cursor, mode="normal", register=self._register)
        if self._inserting is not None:
            before, offset, count = self._inserting
            growth = len(text) - len(before)
            if growth >= 0 and text.startswith(before[:offset]) and text[offset + growth :] == before[offset:]:
                self._typed = text[offset : offset + growth]
                buffer.put(buffer.cursor, buffer.cursor, self._typed * (count - 1))
        self._inserting = None
        self.mode, self.pending_keys, self._column = "normal", "", None
        buffer.cursor = max(buffer.cursor - 1, m.find_line_start(buffer.text, buffer.cursor))
        return Reaction(clamp(buffer.text, buffer.cursor), tuple(buffer.edits))


def clamp(text: str, cursor: int) -> int:
    """Return the nearest valid position in normal mode: on a character of its line."""
    cursor = max(min(cursor, len(text)), 0)
    start, end = m.find_line_start(text, cursor), m.find_line_end(text, cursor)
    return max(min(cursor, end - 1), start)
