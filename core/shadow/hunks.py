"""Exact hunks over bytes: all of them give the pending bytes, none the base, any subset a file in between.

A change keeps its hunks by position. A verdict takes some of them out and shifts the rest, so the rest stays the very
same; lines are compared anew only when the content itself has changed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

from msgspec.structs import replace

from core.protocol.review import Hunk, Verdict
from core.shadow.align import regions
from core.shadow.lines import encoding_of, is_binary, split_lines

__all__ = ["apply", "divisible", "hunks", "inserted", "select", "settled", "split_lines", "whole"]


class _Hash(Protocol):
    def update(self, data: bytes, /) -> None: ...


def hunks(base: bytes, pending: bytes, known: Iterable[Hunk] = ()) -> tuple[Hunk, ...]:
    """The differences, in order. `known`: hunks of an earlier comparison, whose ids go to those of equal content."""
    old, new = split_lines(base), split_lines(pending)
    names = _Names(known)
    return tuple(
        Hunk(
            id=names.take(_digest(old[a0:a1], new[b0:b1]), a0 + 1),
            old_start=a0 + 1,
            old_lines=a1 - a0,
            new_start=b0 + 1,
            new_lines=b1 - b0,
        )
        for a0, a1, b0, b1 in regions(old, new)
    )


def whole(identity: Sequence[str], old_lines: int = 0, new_lines: int = 0) -> tuple[Hunk, ...]:
    """The one hunk of a change that can't be divided; its id is made of what it changes (hashes, modes)."""
    name = _digest([each.encode() for each in identity], [])
    return (Hunk(id=name, old_start=1, old_lines=old_lines, new_start=1, new_lines=new_lines),)


def divisible(base: bytes, pending: bytes) -> bool:
    """Whether any subset of the hunks makes sense: text on both sides, in encodings that can stand in one file."""
    if is_binary(base) or is_binary(pending):
        return False
    return not base or not pending or encoding_of(base) == encoding_of(pending)


def apply(base: bytes, pending: bytes, ids: Collection[str]) -> bytes:
    """`base` with the named hunks of `hunks(base, pending)` put in."""
    return select(base, pending, [each for each in hunks(base, pending) if each.id in ids])


def select(base: bytes, pending: bytes, chosen: Sequence[Hunk]) -> bytes:
    """`base` with the chosen hunks (in order, by position) taken from `pending`."""
    old, new = split_lines(base), split_lines(pending)
    parts: list[bytes] = []
    at = 0
    for each in chosen:
        start = each.old_start - 1
        parts += old[at:start]
        parts += new[each.new_start - 1 : each.new_start - 1 + each.new_lines]
        at = start + each.old_lines
    return b"".join((*parts, *old[at:]))


def settled(all_hunks: Sequence[Hunk], done: Collection[str], verdict: Verdict) -> tuple[Hunk, ...]:
    """What stays pending after a verdict: an accepted hunk moves the base's lines, a rejected one the pending's."""
    rest: list[Hunk] = []
    shift = 0
    for each in all_hunks:
        if each.id in done:
            shift += each.new_lines - each.old_lines
        else:
            rest.append(_moved(each, shift, verdict))
    return tuple(rest)


def inserted(rest: Sequence[Hunk], returned: Sequence[Hunk], verdict: Verdict) -> tuple[Hunk, ...]:
    """The inverse of `settled`: the hunks as they were before `verdict` took `returned` out."""
    waiting = sorted(returned, key=lambda hunk: hunk.old_start)
    found: list[Hunk] = []
    shift = 0
    for each in rest:
        while waiting and _lies_before(waiting[0], _moved(each, -shift, verdict), verdict):
            shift += waiting[0].new_lines - waiting[0].old_lines
            found.append(waiting.pop(0))
        found.append(_moved(each, -shift, verdict))
    return (*found, *waiting)


def _lies_before(first: Hunk, second: Hunk, verdict: Verdict) -> bool:
    """Compared on the side that the verdict left as it was."""
    return first.new_start < second.new_start if verdict == "accept" else first.old_start < second.old_start


def _moved(hunk: Hunk, shift: int, verdict: Verdict) -> Hunk:
    if verdict == "accept":
        return replace(hunk, old_start=hunk.old_start + shift)
    return replace(hunk, new_start=hunk.new_start - shift)


class _Names:
    """Hands out hunk ids: `<12 hex of the content>`, with `.n` where the same content occurs again."""

    def __init__(self, known: Iterable[Hunk]) -> None:
        self._known: dict[str, list[Hunk]] = {}
        for each in known:
            self._known.setdefault(each.id.partition(".")[0], []).append(each)
        self._taken = {each.id for group in self._known.values() for each in group}

    def take(self, content: str, old_start: int) -> str:
        if group := self._known.get(content):
            nearest = min(group, key=lambda hunk: abs(hunk.old_start - old_start))
            group.remove(nearest)
            return nearest.id
        number, found = 0, content
        while found in self._taken:
            number += 1
            found = f"{content}.{number}"
        self._taken.add(found)
        return found


def _digest(removed: Iterable[bytes], added: Iterable[bytes]) -> str:
    found = hashlib.sha256()
    _feed(found, b"-", removed)
    _feed(found, b"+", added)
    return found.hexdigest()[:12]


def _feed(into: _Hash, sign: bytes, lines: Iterable[bytes]) -> None:
    for line in lines:
        into.update(sign + b"%d:" % len(line))
        into.update(line)
