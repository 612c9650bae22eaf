"""The way back from an exposed line to its text, which shares no code with the way there."""

from __future__ import annotations

import re

_SHOWN = re.compile(
    r"‹(?:(?P<seen>.) )?U\+(?P<code>[0-9A-F]{4,6})(?:×(?P<times>\d+))?›"
    r"|‹(?P<letters>[^‹›·]+)·[A-Z][A-Za-z-]+›|(?P<other>.)",
    re.DOTALL,
)


def read_back(line: str) -> str:
    """Return the line that is shown as this one."""
    text, column = "", 0
    for match in _SHOWN.finditer(line):
        if match.start() < column:
            continue  # the blanks up to the stop of a tab
        if code := match["code"]:
            assert match["seen"] in (None, chr(int(code, 16)))
            text += chr(int(code, 16)) * int(match["times"] or 1)
        elif letters := match["letters"]:
            text += letters
        elif (sign := match["other"]) == "⇥":
            column = (match.start() // 4 + 1) * 4
            assert line[match.start() + 1 : column].strip(" ") == ""
            text += "\t"
        else:
            text += " " if sign == "␣" else chr(ord(sign) - 0x2400) if "\u2400" <= sign <= "\u241f" else sign
    return text
