"""Probes in a text: laid in between region marks, taken out again exact to the byte, and found wherever they are.

A text is what a file holds, its line endings included. Only "\\n" and "\\r\\n" end a line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

from core.debug.comments import comment
from core.errors import ToolInputInvalid
from core.protocol.debug import Probe

MARK = "agent-tui probe"
_ID = r"(?P<id>[A-Za-z0-9_.-]+)"
_OPEN = re.compile(rf"(?<![\w-])region {re.escape(MARK)} {_ID}(?![\w.-])")
_CLOSE = re.compile(rf"(?<![\w-])endregion {re.escape(MARK)} {_ID}(?![\w.-])")
_ANY = re.compile(rf"(?:end)?region {re.escape(MARK)}")
_BYTES = re.compile(_ANY.pattern.encode())


class Found(Struct, frozen=True, kw_only=True):
    """A mark in a text: the 1-indexed line that it stands in, and the line."""

    line: int
    text: str


class MarkedText(Struct, frozen=True, kw_only=True):
    """A text with probes in it, and the ids of those whose place is not in it any more."""

    text: str
    lost: tuple[str, ...] = ()


def has_marks(data: bytes) -> bool:
    """Whether there is a mark anywhere in the bytes of a file."""
    return _BYTES.search(data) is not None


def find_marks(text: str) -> tuple[Found, ...]:
    """Every line with a mark, also one whose other half is missing."""
    if MARK not in text:
        return ()
    return tuple(
        Found(line=number, text=line.strip())
        for number, line in enumerate(_lines(text), start=1)
        if _ANY.search(line) is not None
    )


def place(text: str, probe: Probe) -> int | None:
    """The line (1-indexed) before which a probe belongs now; None: its place is gone.

    Between the same two lines, if they are there; else at one of them that stands alone. The nearest place counts.
    """
    bodies = [_body(line) for line in _lines(text)]
    gaps = range(len(bodies) + 1)
    for fits in (_between, _below, _above):
        found = [gap for gap in gaps if fits(bodies, gap, probe)]
        if found:
            return min(found, key=lambda gap: abs(gap + 1 - probe.line)) + 1
    return None


def anchored(text: str, probe: Probe) -> Probe:
    """The probe with the lines that it stands between. `ToolInputInvalid` for a line that the text does not have."""
    from msgspec.structs import replace

    bodies = [_body(line) for line in _lines(text)]
    at = probe.line - 1
    if not 0 <= at <= len(bodies):
        raise ToolInputInvalid(
            f"{probe.path} has {len(bodies)} lines; a probe can't stand before line {probe.line}.",
            hint="Read the file, and give the line before which the probe is to run.",
        )
    return replace(probe, above=bodies[at - 1] if at else None, below=bodies[at] if at < len(bodies) else None)


def lay(text: str, probes: Sequence[Probe], run: str = "") -> MarkedText:
    """The text with all probes that have a place in it; in the order given where they share one.

    `ToolInputInvalid`: the file's language has no comments that are known here, or it holds marks already.
    """
    if _ANY.search(text) is not None:
        raise ToolInputInvalid("The file holds marks of probes that are not ours to move.", hint="Take them out first.")
    lines = _lines(text)
    at: dict[int, list[Probe]] = {}
    lost = []
    for probe in probes:
        found = place(text, probe)
        if found is None:
            lost.append(probe.id)
        else:
            at.setdefault(found - 1, []).append(probe)
    pieces: list[str] = []
    for gap in range(len(lines) + 1):
        for probe in at.get(gap, ()):
            pieces.append(_block(lines, gap, probe, run, "".join(pieces[-1:])))
        if gap < len(lines):
            pieces.append(lines[gap])
    return MarkedText(text="".join(pieces), lost=tuple(lost))


def strip(text: str) -> str:
    """The text without any region between marks: what `lay` was given."""
    if MARK not in text:
        return text
    kept: list[str] = []
    lines = _lines(text)
    at = 0
    while at < len(lines):
        end = _end(lines, at)
        if end is None:
            kept.append(lines[at])
            at += 1
            continue
        if lines[end] == _body(lines[end]) and kept:  # it was laid after a last line that had no ending
            kept[-1] = _body(kept[-1])
        at = end + 1
    return "".join(kept)


def check_code(path: str, code: str) -> None:
    """Raises `ToolInputInvalid` for what can't be a probe in this file."""
    if not code.strip():
        raise ToolInputInvalid("The probe is empty.", hint="Give the statement that writes one line to the log.")
    if _ANY.search(code) is not None:
        raise ToolInputInvalid("The marks are put around a probe by the program.", hint="Give the statement alone.")
    if comment(path, "x") is None:
        raise ToolInputInvalid(
            f"{path}: no comments are known for files of this name, so a probe can't be marked in it.",
            hint="Put it into the code that reads or writes this file.",
        )


def _block(lines: Sequence[str], gap: int, probe: Probe, run: str, before: str) -> str:
    """The lines of one probe. After a last line without an ending it begins with one, and has none at its own end."""
    ending = _ending(lines, gap)
    indent = _indent(lines, gap)
    tags = "".join([f" hypothesis={probe.hypothesis}" if probe.hypothesis else "", f" run={run}" if run else ""])
    opening, closing = (comment(probe.path, f"{word} {MARK} {probe.id}") for word in ("region", "endregion"))
    if opening is None or closing is None:
        check_code(probe.path, probe.code)
        raise AssertionError("check_code refuses this")
    opening = comment(probe.path, f"region {MARK} {probe.id}{tags}") or opening
    body = [f"{indent}{line}" if line else "" for line in _dedented(probe.code)]
    rows = [f"{indent}{opening}", *body, f"{indent}{closing}"]
    if before and _body(before) == before:
        return f"{ending}{ending.join(rows)}"
    return "".join(f"{row}{ending}" for row in rows)


def _indent(lines: Sequence[str], gap: int) -> str:
    """That of the next line with something in it, else of the one before."""
    for line in [*lines[gap : gap + 1], *lines[gap:], *reversed(lines[:gap])]:
        if line.strip():
            return line[: len(line) - len(line.lstrip(" \t"))]
    return ""


def _dedented(code: str) -> list[str]:
    from textwrap import dedent

    return dedent(code.replace("\r\n", "\n").replace("\r", "\n")).strip("\n").split("\n")


def _ending(lines: Sequence[str], gap: int) -> str:
    near = [*lines[gap : gap + 1], *reversed(lines[:gap])]
    return next((line[len(_body(line)) :] for line in near if line != _body(line)), "\n")


def _end(lines: Sequence[str], at: int) -> int | None:
    """Where the region that begins in a line ends; None: none begins there, or it has no end."""
    opening = _OPEN.search(lines[at])
    if opening is None or _CLOSE.search(lines[at]) is not None:
        return None
    for number in range(at + 1, len(lines)):
        closing = _CLOSE.search(lines[number])
        if closing is not None and closing["id"] == opening["id"]:
            return number
    return None


def _between(bodies: Sequence[str], gap: int, probe: Probe) -> bool:
    return _above(bodies, gap, probe) and _below(bodies, gap, probe)


def _above(bodies: Sequence[str], gap: int, probe: Probe) -> bool:
    return (bodies[gap - 1] if gap else None) == probe.above


def _below(bodies: Sequence[str], gap: int, probe: Probe) -> bool:
    return (bodies[gap] if gap < len(bodies) else None) == probe.below


def _lines(text: str) -> list[str]:
    parts = text.split("\n")
    return [f"{part}\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def _body(line: str) -> str:
    return line.removesuffix("\n").removesuffix("\r") if line.endswith("\n") else line


def by_path(probes: Iterable[Probe]) -> dict[str, list[Probe]]:
    """The probes of each file, in order."""
    found: dict[str, list[Probe]] = {}
    for probe in probes:
        found.setdefault(probe.path, []).append(probe)
    return found
