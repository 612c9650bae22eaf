"""Lines that are versions of each other by what they say: calls of one thing, and lines that differ in one word."""

from __future__ import annotations

import re
from typing import Final

CALL: Final = re.compile(r"(?P<callee>(?:await\s+)?[\w.$>:-]+\()(?P<given>.*)\)[;,]?")
_CALLED_ONCE: Final = re.compile(r"[\w.]*\b(?:listen|main|run|start|serve|exit|render|mount)\(")


def differ_in_one_word(new: str, old: str) -> bool:
    mine, theirs = (re.findall(r"\w+|\W", row.strip()) for row in (new, old))
    return len(mine) == len(theirs) and sum(map(str.__ne__, mine, theirs)) == 1


def is_same_call(new: str, old: str) -> bool:
    """True if a call is one of the same thing that is given the same and more, or of something that is called once."""
    one, other = CALL.fullmatch(new.strip()), CALL.fullmatch(old.strip())
    if one is None or other is None or one["callee"] != other["callee"]:
        return False
    return one["given"].startswith(other["given"]) or _CALLED_ONCE.fullmatch(one["callee"]) is not None
