"""Vim's single keys, each with what it does at the cursor or to the selection: `x`, `p`, `o`, `J`, `~` and others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from tui.chat.prompt.vim.editing import MAX_PUT, Desk, Yank, operate
from tui.chat.prompt.vim.motions import find_first_letter, find_line_end, move_line

Action = Callable[[Desk, str], None]


def _delete_letters(desk: Desk, key: str) -> None:
    start, end = desk.line
    if key == "X":
        operate(desk, "d", max(desk.cursor - desk.count, start), desk.cursor)
    else:
        operate(desk, "c" if key == "s" else "d", desk.cursor, min(desk.cursor + desk.count, end))


def _take_rest(desk: Desk, key: str) -> None:
    """`D` and `C` take what is left of the line, `S` and `Y` whole lines."""
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
