"""Vim's keys for the prompt: a state machine that turns keys, a text and a cursor into edits. It knows no widget."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, Literal, NamedTuple

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
Action = Callable[["Desk", str], None]
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
_NORMAL: Final = re.compile(
    rf"(?P<count>[1-9]\d*)?(?:(?P<operator>[dcy])(?P<inner>[1-9]\d*)?"
    rf"(?:(?P<object>{_OBJECT})|(?P<moved>{_MOTION})|(?P<line>(?P=operator)))"
    rf"|(?P<motion>{_MOTION})|(?P<action>r.|[xXsSDCYpPuiIaAoOJ~vV./{REDO}]))",
    re.DOTALL,
)
_VISUAL: Final = re.compile(
    rf"(?P<count>[1-9]\d*)?(?:(?P<object>{_OBJECT})|(?P<motion>{_MOTION})|(?P<action>r.|[dxXcsyYpPuUJ~ovV]))",
    re.DOTALL,
)
_BEGUN: Final = re.compile(r"(?:[1-9]\d*)?(?:[dcy](?:[1-9]\d*)?[iafFtTg]?|[fFtTgr])?")
_BEGUN_VISUAL: Final = re.compile(r"(?:[1-9]\d*)?[iafFtTgr]?")


class Edit(NamedTuple):
    """The characters from `start` to before `end` become `text`."""

    start: int
    end: int
    text: str


class Yank(NamedTuple):
    """The text that was deleted or copied last; whole lines end without their newline."""

    text: str = ""
    is_lines: bool = False


class Desk:
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


def operate(desk: Desk, operator: str, start: int, end: int, *, is_lines: bool = False) -> None:
    """Delete (`d`), change (`c`) or copy (`y`) a part of the text, which the register holds then."""
    if is_lines:
        start, end = find_line_start(desk.text, start), find_line_end(desk.text, max(start, end))
    if start >= end and not is_lines:
        if operator == "c":
            desk.begin_insert(start)
        return
    desk.register = Yank(desk.text[start:end], is_lines)
    if operator == "y":
        desk.cursor = desk.cursor if is_lines and start <= desk.cursor <= end else start
    elif operator == "c":
        desk.put(start, end, "")
        desk.begin_insert(start)
    elif is_lines:
        _delete_lines(desk, start, end)
    else:
        desk.put(start, end, "")


def _delete_lines(desk: Desk, start: int, end: int) -> None:
    if end < len(desk.text):
        desk.put(start, end + 1, "")
    else:
        desk.put(max(start - 1, 0), end, "")
    desk.cursor = find_first_letter(desk.text, min(desk.cursor, len(desk.text)))


def _delete_letters(desk: Desk, key: str) -> None:
    start, end = desk.line
    if key == "X":
        operate(desk, "d", max(desk.cursor - desk.count, start), desk.cursor)
    else:
        operate(desk, "c" if key == "s" else "d", desk.cursor, min(desk.cursor + desk.count, end))


def _take_rest(desk: Desk, key: str) -> None:
    """Apply `D` and `C` to the rest of the line, `S` and `Y` to whole lines."""
    last = move_line(desk.text, desk.cursor, desk.count - 1, 0)
    if key in "SY":
        operate(desk, "c" if key == "S" else "y", desk.cursor, last, is_lines=True)
    else:
        operate(desk, key.lower(), desk.cursor, find_line_end(desk.text, last))


def _put(desk: Desk, key: str) -> None:
    text, is_lines = desk.register
    count = min(desk.count, MAX_PUT // max(len(text), 1))
    start, end = desk.line
    if not count or not (text or is_lines):
        return
    if not is_lines:
        offset = desk.cursor if key == "P" or start == end else desk.cursor + 1
        desk.put(offset, offset, text * count)
        desk.cursor -= 1
        return
    block = "\n".join([text] * count)
    desk.put(*((start, start, f"{block}\n") if key == "P" else (end, end, f"\n{block}")))
    desk.cursor = find_first_letter(desk.text, start if key == "P" else end + 1)


def _begin_insert(desk: Desk, key: str) -> None:
    start, end = desk.line
    places = {"i": desk.cursor, "a": min(desk.cursor + 1, end), "I": find_first_letter(desk.text, start), "A": end}
    desk.begin_insert(places[key], repeats=True)


def _open_line(desk: Desk, key: str) -> None:
    start, end = desk.line
    offset = end if key == "o" else start
    desk.put(offset, offset, "\n")
    desk.begin_insert(end + 1 if key == "o" else start)


def _join(desk: Desk, _: str) -> None:
    for _time in range(max(desk.count - 1, 1)):
        end = find_line_end(desk.text, desk.cursor)
        if end == len(desk.text):
            return
        below = find_first_letter(desk.text, end + 1)
        is_apart = end > 0 and not desk.text[end - 1].isspace() and below < find_line_end(desk.text, end + 1)
        desk.put(end, below, " " if is_apart else "")
        desk.cursor = end


def _swap_case(desk: Desk, _: str) -> None:
    end = min(desk.cursor + desk.count, desk.line[1])
    desk.put(desk.cursor, end, desk.text[desk.cursor : end].swapcase())


def _overwrite(desk: Desk, key: str) -> None:
    end = desk.cursor + desk.count
    if end <= desk.line[1]:
        desk.put(desk.cursor, end, key[1] * desk.count)
        desk.cursor -= 1


def _undo(desk: Desk, key: str) -> None:
    desk.undone = desk.count if key == "u" else -desk.count


def _select(desk: Desk, key: str) -> None:
    desk.anchor, desk.mode = desk.cursor, "visual" if key == "v" else "lines"


def _search_history(desk: Desk, _: str) -> None:
    desk.request = "search"


NORMAL_ACTIONS: Final[Mapping[str, Action]] = {
    **dict.fromkeys("xXs", _delete_letters),
    **dict.fromkeys("SDCY", _take_rest),
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


def _operate_on_selection(desk: Desk, key: str) -> None:
    operator = {"x": "d", "s": "c"}.get(key.lower(), key.lower())
    (start, end), is_lines = desk.selected, desk.mode == "lines" or key in "XY"
    desk.mode = "normal"
    operate(desk, operator, start, end, is_lines=is_lines)
    desk.cursor = start if operator == "y" else desk.cursor


def _put_over(desk: Desk, _: str) -> None:
    (start, end), is_lines, put = desk.selected, desk.mode == "lines", desk.register
    text = put.text if is_lines or not put.is_lines else f"\n{put.text}\n"
    desk.register = Yank(desk.text[start:end], is_lines)
    desk.put(start, end, text)
    desk.cursor, desk.mode = max(desk.cursor - 1, start), "normal"


def _change_selected(desk: Desk, key: str) -> None:
    (start, end), change = desk.selected, _CASES.get(key[0])
    text = desk.text[start:end]
    new = change(text) if change else "".join(char if char == "\n" else key[1] for char in text)
    desk.put(start, end, new)
    desk.cursor, desk.mode = start, "normal"


def _join_selected(desk: Desk, key: str) -> None:
    start, end = desk.selected
    desk.count, desk.cursor, desk.mode = desk.text[start:end].count("\n") + 1, start, "normal"
    _join(desk, key)


def _turn_round(desk: Desk, _: str) -> None:
    desk.anchor, desk.cursor = desk.cursor, desk.anchor


def _select_otherwise(desk: Desk, key: str) -> None:
    mode = "visual" if key == "v" else "lines"
    desk.mode = "normal" if desk.mode == mode else mode  # type: ignore[assignment]


_CASES: Final[Mapping[str, Callable[[str], str]]] = {"~": str.swapcase, "u": str.lower, "U": str.upper}


VISUAL_ACTIONS: Final[Mapping[str, Action]] = {
    **dict.fromkeys("dxXcsyY", _operate_on_selection),
    **dict.fromkeys("pP", _put_over),
    **dict.fromkeys("~uUr", _change_selected),
    **dict.fromkeys("vV", _select_otherwise),
    "J": _join_selected,
    "o": _turn_round,
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
    """One user's hands on one text. A new one inserts."""

    def __init__(self) -> None:
        self.mode: VimMode = "insert"
        self.begun = ""
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
        return f"{names[self.mode]} {self.begun}".strip()

    def insert(self) -> None:
        """Begin as a new text does."""
        self.mode, self.begun, self._inserting = "insert", "", None

    def press(self, key: str, text: str, cursor: int, anchor: int | None = None) -> Reaction | None:
        """React to a key, named as Textual does or a character. None: it has no meaning here, the widget's counts."""
        if self.mode == "insert":
            return self._leave_insert(text, cursor) if key == "escape" else None
        if key == "escape":
            return self._leave(text, cursor)
        sign = _NAMED_KEYS.get(key, key)
        if len(sign) != 1:
            return None
        # A letter that is awaited behind r, f or t may be a blank
        letter = " " if key == "space" and self.begun[-1:] in tuple("rfFtT") else sign
        return self._read(letter, text, min(cursor, len(text)), anchor)

    def _leave(self, text: str, cursor: int) -> Reaction | None:
        """Cancel pending keys, then the selection; a third Escape is left to the program."""
        was_idle = self.mode == "normal" and not self.begun
        self.mode, self.begun = "normal", ""
        return None if was_idle else Reaction(clamp(text, cursor))

    def _read(self, letter: str, text: str, cursor: int, anchor: int | None) -> Reaction:
        is_visual = self.mode in {"visual", "lines"}
        self.begun += letter
        desk = Desk(text, cursor, anchor=cursor if anchor is None else anchor, mode=self.mode, register=self._register)
        if match := (_VISUAL if is_visual else _NORMAL).fullmatch(self.begun):
            keys, self.begun = self.begun, ""
            self._run(desk, match, keys)
        elif not (_BEGUN_VISUAL if is_visual else _BEGUN).fullmatch(self.begun):
            self.begun = ""
        return self._settle(desk)

    def _settle(self, desk: Desk) -> Reaction:
        """Adopt the state of the desk, and move the cursor to a valid position."""
        if desk.mode == "insert":
            self._inserting = (desk.text, desk.cursor, desk.count if desk.repeats else 1)
        self.mode, self._register = desk.mode, desk.register
        cursor = min(desk.cursor, len(desk.text)) if desk.mode == "insert" else clamp(desk.text, desk.cursor)
        anchor = clamp(desk.text, desk.anchor) if desk.mode in {"visual", "lines"} else None
        return Reaction(cursor, tuple(desk.edits), anchor, desk.undone, desk.request)

    def _run(self, desk: Desk, match: re.Match[str], keys: str) -> None:
        parts = match.groupdict()
        counts = [int(digits[:6]) for digits in (parts["count"], parts.get("inner")) if digits]
        desk.count, desk.is_counted = 1, bool(counts)
        for count in counts:
            desk.count = min(desk.count * count, MAX_COUNT)
        is_vertical = (parts["motion"] or "") in {"j", "k"}
        self._column = self._column if is_vertical else None
        if desk.mode in {"visual", "lines"}:
            self._run_visual(desk, parts)
            return
        if parts["action"] == ".":
            self._repeat(desk)
        elif operator := parts["operator"]:
            self._run_operator(desk, operator, parts)
        elif motion := parts["motion"]:
            self._run_motion(desk, motion)
        else:
            NORMAL_ACTIONS[parts["action"][0]](desk, parts["action"])
        if desk.mode == "insert" or (desk.edits and parts["action"] != "."):
            self._change, self._typed = keys, ""

    def _run_motion(self, desk: Desk, motion: str) -> None:
        cursor = desk.cursor
        target = self._find(desk, motion)
        if target is not None:
            desk.cursor = target
        is_at_edge = target is not None and m.find_line_start(desk.text, target) == m.find_line_start(desk.text, cursor)
        if motion in {"j", "k"} and is_at_edge and desk.mode == "normal":
            desk.cursor, desk.request = cursor, "older" if motion == "k" else "newer"

    def _find(self, desk: Desk, motion: str) -> int | None:
        text, cursor, count = desk.text, desk.cursor, desk.count
        if motion in {"j", "k"}:
            self._column = cursor - m.find_line_start(text, cursor) if self._column is None else self._column
            return m.move_line(text, cursor, count if motion == "j" else -count, self._column)
        if motion in {"gg", "G"}:
            return m.go_to_line(text, count if desk.is_counted or motion == "gg" else MAX_COUNT)
        if motion in {";", ","}:
            if self._search is None:
                return None
            search = self._search if motion == ";" else self._search.turn_round()
            return m.find_letter(text, cursor, count, search, is_repeated=True)
        if motion[0] in "fFtT":
            self._search = m.LetterSearch(motion[0], motion[1])
            return m.find_letter(text, cursor, count, self._search)
        return m.MOTIONS[motion](text, cursor, count)

    def _run_operator(self, desk: Desk, operator: str, parts: dict[str, str | None]) -> None:
        """Carry out `d`, `c` or `y` over an object, the way of a motion, or whole lines."""
        text, cursor = desk.text, desk.cursor
        if parts["line"]:
            operate(desk, operator, cursor, m.move_line(text, cursor, desk.count - 1, 0), is_lines=True)
        elif name := parts["object"]:
            if span := find_object(text, cursor, name):
                operate(desk, operator, *span, is_lines=name[1] == "p")
        elif motion := parts["moved"]:
            self._operate_to(desk, operator, motion)

    def _operate_to(self, desk: Desk, operator: str, motion: str) -> None:
        text, cursor = desk.text, desk.cursor
        if operator == "c" and motion in {"w", "W"} and text[cursor : cursor + 1].strip():
            end = m.MOTIONS[motion.replace("w", "e").replace("W", "E")](text, cursor - 1, desk.count) + 1
            operate(desk, operator, cursor, max(end, cursor))
            return
        if (target := self._find(desk, motion)) is None:
            return
        is_lines = motion in m.LINEWISE
        start, end = sorted((cursor, target))
        key = self._search.key if motion in {";", ","} and self._search else motion[0]
        if not is_lines and key in m.INCLUSIVE and (target > cursor or motion in {"%", "e", "E"}):
            end += 1
        if motion in {"w", "W"} and "\n" in text[cursor:end]:
            end = cursor + (len(text[cursor:end].rstrip()) or text[cursor:end].index("\n"))
        operate(desk, operator, start, min(end, len(text)), is_lines=is_lines)

    def _run_visual(self, desk: Desk, parts: dict[str, str | None]) -> None:
        if motion := parts["motion"]:
            self._run_motion(desk, motion)
        elif name := parts["object"]:
            span = find_object(desk.text, desk.cursor, name)
            if span and span[0] < span[1]:
                desk.anchor, desk.cursor = span[0], span[1] - 1
        elif action := parts["action"]:
            VISUAL_ACTIONS[action[0]](desk, action)

    def _repeat(self, desk: Desk) -> None:
        """Repeat the last change, with its inserted text."""
        match = _NORMAL.fullmatch(self._change) if self._change else None
        if match is None:
            return
        keys, typed_text, times = self._change, self._typed, desk.count
        for _ in range(min(times, 50)):
            self._run(desk, match, keys)
            if desk.mode == "insert":
                insertion = typed_text * (desk.count if desk.repeats else 1)
                desk.put(desk.cursor, desk.cursor, insertion)
                desk.cursor = max(desk.cursor - 1, m.find_line_start(desk.text, desk.cursor))
                desk.mode = "normal"
            desk.cursor = clamp(desk.text, desk.cursor)
        self._change, self._typed = keys, typed_text

    def _leave_insert(self, text: str, cursor: int) -> Reaction:
        """Change from insert to normal mode; the inserted text is the growth of the text since."""
        desk = Desk(text, min(cursor, len(text)), anchor=cursor, mode="normal", register=self._register)
        if self._inserting is not None:
            before, offset, count = self._inserting
            growth = len(text) - len(before)
            if growth >= 0 and text.startswith(before[:offset]) and text[offset + growth :] == before[offset:]:
                self._typed = text[offset : offset + growth]
                desk.put(desk.cursor, desk.cursor, self._typed * (count - 1))
        self._inserting = None
        self.mode, self.begun, self._column = "normal", "", None
        desk.cursor = max(desk.cursor - 1, m.find_line_start(desk.text, desk.cursor))
        return Reaction(clamp(desk.text, desk.cursor), tuple(desk.edits))


def clamp(text: str, cursor: int) -> int:
    """Return the nearest valid position in normal mode: on a character of its line."""
    cursor = max(min(cursor, len(text)), 0)
    start, end = m.find_line_start(text, cursor), m.find_line_end(text, cursor)
    return max(min(cursor, end - 1), start)
