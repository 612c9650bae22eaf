"""The machine of Vim's keys: a key, the text and the cursor give edits and the next cursor. It keeps what a key alone
does not say (the mode, what was begun, the register), and never the text.

A key that means nothing is dropped with what was begun. Nothing here raises, whatever is typed: a count is bounded, and
a place is brought back into the text.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from tui.chat.prompt.vim import motions as m
from tui.chat.prompt.vim.commands import NORMAL_ACTIONS, VISUAL_ACTIONS
from tui.chat.prompt.vim.editing import Desk, Edit, Request, VimMode, Yank, operate
from tui.chat.prompt.vim.objects import OBJECTS, find_object

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


class Reaction(NamedTuple):
    """The answer to a key: edits, one after the other, and where the cursor is behind them. `anchor`: the other end of
    what is selected, None = nothing is; `undone`: changes that are taken back (below 0: done again)."""

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
        self._change = ""  # the keys of the last change, and what was typed for it
        self._typed = ""
        self._inserting: tuple[str, int, int] | None = None  # the text, the cursor and the count when typing began
        self._column: int | None = None  # that j and k go back to

    @property
    def title(self) -> str:
        """The mode as Vim tells it, with what was begun; "" while text is typed."""
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
        """Escape ends what was begun, then the selection; a third one is the program's."""
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
        """Take over what the desk says, and bring the cursor to where it may stand."""
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
        """Do the last change again, with what was typed for it."""
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
        """Go from typing to commands; what was typed is known from how the text has grown since."""
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
    """Return the nearest place where the cursor of a command may stand: on a character of its line."""
    cursor = max(min(cursor, len(text)), 0)
    start, end = m.find_line_start(text, cursor), m.find_line_end(text, cursor)
    return max(min(cursor, end - 1), start)
