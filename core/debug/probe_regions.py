"""Probe regions in a text: inserting probes between region comments, finding them, and removing them exactly to the
byte.

A text is the content of a file with its line endings. Only LF and CRLF end a line.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from textwrap import dedent
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from core.errors import ToolInputInvalid
from core.languages import detect_language
from core.patterns import compile_lazily
from core.protocol.debug import Probe
from core.text.lines import split_whole_lines, trim_ending

REGION_NAME = "agent-tui probe"
_WORDS: Final = {
    ("#", ""): "python bash ruby perl r julia elixir nim nix yaml toml make cmake docker powershell graphql terraform",
    (
        "//",
        "",
    ): "c cpp csharp cuda d dart fsharp glsl go groovy java javascript jsx kotlin less objective-c php protobuf "
    "rust sass scala scss swift tsx typescript zig",
    ("--", ""): "elm haskell lua sql",
    (";", ""): "clojure ini",
    ("%", ""): "erlang matlab tex",
    ("!", ""): "fortran",
    ('"', ""): "vim",
    ("REM", ""): "batch",
    ("/*", "*/"): "css",
    ("(*", "*)"): "ocaml",
    ("<!--", "-->"): "html xml vue markdown",
}
_SYNTAX: Final = {language: syntax for syntax, languages in _WORDS.items() for language in languages.split()}
_ID = r"(?P<id>[A-Za-z0-9_.-]+)"
_OPEN = compile_lazily(rf"(?<![\w-])region {re.escape(REGION_NAME)} {_ID}(?![\w.-])")
_CLOSE = compile_lazily(rf"(?<![\w-])endregion {re.escape(REGION_NAME)} {_ID}(?![\w.-])")
_ANY = compile_lazily(rf"(?:end)?region {re.escape(REGION_NAME)}")
_BYTES = compile_lazily(_ANY.pattern.encode())


class RegionComment(Struct, frozen=True, kw_only=True):
    """A region comment in a text: its line number (1-indexed) and the line."""

    line: int
    text: str


class ProbedText(Struct, frozen=True, kw_only=True):
    """A text with probes in it, and the ids of the probes whose position no longer exists."""

    text: str
    lost: tuple[str, ...] = ()


def has_regions(data: bytes) -> bool:
    """True if the bytes of a file contain a region comment."""
    return _BYTES.search(data) is not None


def find_region_comments(text: str) -> tuple[RegionComment, ...]:
    """Find every line with a region comment, including one whose counterpart is missing."""
    if REGION_NAME not in text:
        return ()
    return tuple(
        RegionComment(line=number, text=line.strip())
        for number, line in enumerate(split_whole_lines(text), start=1)
        if _ANY.search(line) is not None
    )


def locate_probe(text: str, probe: Probe) -> int | None:
    """Return the line (1-indexed) before which a probe belongs now; None if its position no longer exists.

    That is between the same two lines if both are still adjacent, else next to one of them. The nearest match wins.
    """
    bodies = [trim_ending(line) for line in split_whole_lines(text)]
    gaps = range(len(bodies) + 1)
    for fits in (_fits_between, _fits_below, _fits_above):
        candidates = [gap for gap in gaps if fits(bodies, gap, probe)]
        if candidates:
            return min(candidates, key=lambda gap: abs(gap + 1 - probe.line)) + 1
    return None


def anchor_probe(text: str, probe: Probe) -> Probe:
    """Return the probe with its two neighbouring lines. Raises `ToolInputInvalid` for a position outside of the
    text."""
    bodies = [trim_ending(line) for line in split_whole_lines(text)]
    index = probe.line - 1
    if not 0 <= index <= len(bodies):
        raise ToolInputInvalid(
            f"{probe.path} has {len(bodies)} lines; a probe can't be added before line {probe.line}.",
            hint="Read the file, and give the line before which the probe should run.",
        )
    return replace(
        probe, above=bodies[index - 1] if index else None, below=bodies[index] if index < len(bodies) else None
    )


def insert_probes(text: str, probes: Sequence[Probe], run: str = "") -> ProbedText:
    """Insert all probes that have a position in the text; in the order of `probes` where they share one.

    Raises `ToolInputInvalid` if the comment syntax of the file's language is unknown, or if it has regions already.
    """
    if _ANY.search(text) is not None:
        raise ToolInputInvalid("The file has probe markers that this session did not add.", hint="Remove them first.")
    lines = split_whole_lines(text)
    probes_by_gap: defaultdict[int, list[Probe]] = defaultdict(list)
    lost_ids = []
    for probe in probes:
        line_number = locate_probe(text, probe)
        if line_number is None:
            lost_ids.append(probe.id)
        else:
            probes_by_gap[line_number - 1].append(probe)
    pieces: list[str] = []
    for gap in range(len(lines) + 1):
        for probe in probes_by_gap.get(gap, ()):
            pieces.append(_render_region(lines, gap, probe, run, "".join(pieces[-1:])))
        if gap < len(lines):
            pieces.append(lines[gap])
    return ProbedText(text="".join(pieces), lost=tuple(lost_ids))


def remove_probes(text: str) -> str:
    """Remove every region; this restores the text that `insert_probes` received."""
    if REGION_NAME not in text:
        return text
    remaining_lines: list[str] = []
    lines = split_whole_lines(text)
    index = 0
    while index < len(lines):
        end = _find_region_end(lines, index)
        if end is None:
            remaining_lines.append(lines[index])
            index += 1
            continue
        if (
            lines[end] == trim_ending(lines[end]) and remaining_lines
        ):  # the probe was inserted after a last line without a line ending
            remaining_lines[-1] = trim_ending(remaining_lines[-1])
        index = end + 1
    return "".join(remaining_lines)


def check_probe_code(path: str, code: str) -> None:
    """Raise `ToolInputInvalid` for code that cannot be a probe in this file."""
    if not code.strip():
        raise ToolInputInvalid("The probe is empty.", hint="Give the statement that writes one line to the log.")
    if _ANY.search(code) is not None:
        raise ToolInputInvalid("The program adds the markers itself.", hint="Give only the statement.")
    if format_comment(path, "x") is None:
        raise ToolInputInvalid(
            f"{path}: the comment syntax of this file type is unknown, so a probe can't be marked in it.",
            hint="Put it in the code that reads or writes this file.",
        )


def format_comment(path: str, text: str) -> str | None:
    """Format `text` as a one-line comment; None if the file's language is unknown or has no comments."""
    syntax = _SYNTAX.get(detect_language(path))
    if syntax is None:
        return None
    opening, closing = syntax
    return f"{opening} {text} {closing}".rstrip()


def _render_region(lines: Sequence[str], gap: int, probe: Probe, run: str, before: str) -> str:
    """Render one probe. After a last line without a line ending, the ending comes first and none comes last."""
    ending = _find_ending(lines, gap)
    indent = _find_indent(lines, gap)
    tags = "".join([f" hypothesis={probe.hypothesis}" if probe.hypothesis else "", f" run={run}" if run else ""])
    opening = format_comment(probe.path, f"region {REGION_NAME} {probe.id}{tags}")
    closing = format_comment(probe.path, f"endregion {REGION_NAME} {probe.id}")
    if opening is None or closing is None:
        check_probe_code(probe.path, probe.code)
        raise AssertionError("check_probe_code refuses this")
    code = dedent(probe.code.replace("\r\n", "\n").replace("\r", "\n")).strip("\n")
    body = [f"{indent}{line}" if line else "" for line in code.split("\n")]
    rows = [f"{indent}{opening}", *body, f"{indent}{closing}"]
    if before and trim_ending(before) == before:
        return f"{ending}{ending.join(rows)}"
    return "".join(f"{row}{ending}" for row in rows)


def _find_indent(lines: Sequence[str], gap: int) -> str:
    line = next((line for line in [*lines[gap:], *reversed(lines[:gap])] if line.strip()), "")
    return line[: len(line) - len(line.lstrip(" \t"))]


def _find_ending(lines: Sequence[str], gap: int) -> str:
    nearby_lines = [*lines[gap : gap + 1], *reversed(lines[:gap])]
    return next((line[len(trim_ending(line)) :] for line in nearby_lines if line != trim_ending(line)), "\n")


def _find_region_end(lines: Sequence[str], start: int) -> int | None:
    """Return the last line of the region that begins at line `start`; None if none begins there or it is not closed."""
    opening = _OPEN.search(lines[start])
    if opening is None or _CLOSE.search(lines[start]) is not None:
        return None
    for number in range(start + 1, len(lines)):
        closing = _CLOSE.search(lines[number])
        if closing is not None and closing["id"] == opening["id"]:
            return number
    return None


def _fits_between(bodies: Sequence[str], gap: int, probe: Probe) -> bool:
    return _fits_above(bodies, gap, probe) and _fits_below(bodies, gap, probe)


def _fits_above(bodies: Sequence[str], gap: int, probe: Probe) -> bool:
    return (bodies[gap - 1] if gap else None) == probe.above


def _fits_below(bodies: Sequence[str], gap: int, probe: Probe) -> bool:
    return (bodies[gap] if gap < len(bodies) else None) == probe.below


def group_by_path(probes: Iterable[Probe]) -> dict[str, list[Probe]]:
    """Group the probes by file, preserving their order."""
    probes_by_path: defaultdict[str, list[Probe]] = defaultdict(list)
    for probe in probes:
        probes_by_path[probe.path].append(probe)
    return probes_by_path
