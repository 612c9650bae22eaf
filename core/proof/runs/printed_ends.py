"""The ends of tests as a runner prints them, where no record is made: TAP (`node --test`, tape), jest, vitest, mocha,
Go, Rust.

A failure is by an assertion or by a crash; what does not say so is taken for what the rest of the output shows.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from core.patterns import compile_lazily
from core.proof.runs.records import TestEnd
from core.sandbox.plain_text import strip_escapes

_TAP: Final = compile_lazily(r"\s*(not ok|ok) \d+(?: - | )?(.*?)(?: # (SKIP|TODO)\b.*)?")
_TITLE: Final = compile_lazily(r"# (?!Subtest: |tests |pass |fail |ok$)(\S.*)")  # of tape, whose ends are assertions
_BLOCK_END: Final = compile_lazily(r"\s*(?:# )?\s*\.\.\.\s*")
_FIELD: Final = compile_lazily(r"\s*(?:# )?\s*(location|failureType|error|code|name|operator): *(.*)")
_PLACE: Final = compile_lazily(r"\(?(?:file://)?(/[^\s()]+?):(\d+):\d+\)?\s*$")
_ERROR: Final = compile_lazily(
    r"^\s*(?:Uncaught )?(?:[\w.]+\.)?(\w*(?:Error|Exception))\b(?: \[\w+\])?: (.*)", re.MULTILINE
)
# Names of failed tests, which runners print on lines of their own. The output is that of a check which has failed, so a
# line that only looks like one names a wrong test, and no more than that.
_PRINTED: Final = compile_lazily(
    r"^\s*●\s+(?!Console)(?P<jest>.*\S)"
    r"|^\s*(?:FAIL|×|✖)\s+(?P<vitest>\S.*?)(?: \d+ ?ms| \([\d.]+m?s\))?$"
    r"|^\s*--- FAIL: (?P<go>\S+)"
    r"|^test (?P<rust>\S+) \.\.\. FAILED"
    r"|^rspec (?P<rspec>\S+) #"
    r"|^\d+\) (?P<phpunit>[\w\\]+::\w+)"
    r"|^\[ERROR\]\s+(?P<maven>\w+\.\w+:\d+)"
    r"|^(?P<gradle>[\w.$]+ > .*\S) FAILED$"
    r"|^FAILED (?P<pytest>\S+)"
    r"|^(?:FAIL|ERROR): (?P<unittest>\w+ \(.*\))$"
    r"|^\s+\d+\) (?P<mocha>[^\n]+\n +[^\n]+):$"
    r"|^\s*\d+ - (?P<ctest>\S+) \(Failed\)"
    r"|^Test Case '(?P<swift>.*)' failed"
    r"|^(?P<deno>\S.*?) \.\.\. FAILED"
    r"|^\s*Failed (?P<dotnet>[\w.]+(?:\(.*\))?) \[",
    re.MULTILINE,
)
# What they say of an assertion, where no error has a class.
_SAID: Final = compile_lazily(
    r"^\s+\w+_test\.go:\d+: (?P<go>.*)|^(?P<rust>assertion .{0,80}failed.*)|^(?P<php>Failed asserting that .*)"
    r"|(?P<java>expected: ?<.*> but was: ?<.*>)|^\s+(?P<jest>Expected: .*)|^\s+Failure/Error: (?P<rspec>.*)",
    re.MULTILINE,
)
_ASSERTION: Final = compile_lazily(
    r"\bAssertionError\b|\bERR_ASSERTION\b|\bexpect\(|^\s*--- FAIL:|\bassertion .{0,80}failed\b|^\s*operator: "
    r"|\bAssertionFailed(?:Error|Exception)\b|\bExpectationNotMet|\bComparisonFailure\b|\bFailed asserting\b",
    re.MULTILINE,
)
_CRASH_KIND: Final = "Error"
_MOST_ENDS: Final = 5_000


def read_printed_ends(output: str, root: Path, *, is_red: bool) -> tuple[TestEnd, ...]:
    """Return the ends that a runner printed. `root`: of the project, to which paths are made relative; `is_red`: the
    run has failed, so what is printed of an error is why."""
    text = strip_escapes(output)
    ends = tuple(_read_tap(text.split("\n"), root))[:_MOST_ENDS]
    if not is_red or any(end.outcome == "failed" for end in ends):
        return ends
    return (*ends, *_read_errors(text, root))


def _read_errors(text: str, root: Path) -> Iterator[TestEnd]:
    """Yield the tests that are named as failed, or one without a name for an error that ended everything."""
    kind = "AssertionError" if _ASSERTION.search(text) else _CRASH_KIND
    error = _ERROR.search(text)
    if error is not None and kind == _CRASH_KIND:
        kind = error[1]
    words = _SAID.search(text) if kind == "AssertionError" else None
    message = _get_named(words) if words is not None else error[2] if error is not None else ""
    places = tuple(_list_places(text.split("\n"), root))[:1]
    names = dict.fromkeys(_get_named(match) for match in _PRINTED.finditer(text))
    if not names and error is not None:
        names = {places[0][0] if places else "": None}
    yield from (TestEnd(name, "call", "failed", kind, message, places) for name in names)


def _get_named(match: re.Match[str]) -> str:
    """Return the text of the one group that has matched, on one line."""
    text = next(part for part in match.groups() if part is not None)
    return " ".join(text.split())


def _read_tap(lines: list[str], root: Path) -> Iterator[TestEnd]:
    """Yield the ends of TAP; those that only sum up others are left out."""
    start, title = 0, ""
    for index, line in enumerate(lines):
        match = _TAP.fullmatch(line)
        if match is None:
            continue
        outcome, name, directive = match.groups()
        block = _read_block(lines, index + 1)
        titles = [_TITLE.fullmatch(row) for row in lines[start:index]]
        title = next((found[1] for found in reversed(titles) if found is not None), title)
        name = name if any("location:" in row for row in block) else title or name
        if outcome == "ok" or directive:
            yield TestEnd(_build_id(name, block, root), "call", "skipped" if directive else "passed")
        elif not any("subtestsFailed" in row for row in block):
            yield _read_failure(_build_id(name, block, root), block, lines[start:index], root)
        start = index + 1


def _read_block(lines: list[str], start: int) -> list[str]:
    """Return the details below a line of TAP, () = it has none."""
    if not lines[start : start + 1] or lines[start].removeprefix("#").strip() != "---":
        return []
    end = next((index for index in range(start, len(lines)) if _BLOCK_END.fullmatch(lines[index])), start)
    return lines[start:end]


def _read_failure(test: str, block: list[str], before: list[str], root: Path) -> TestEnd:
    """`before`: what was printed since the last end, as of a process that has failed as a whole."""
    fields = {match[1]: match[2].strip("'\"") for row in block if (match := _FIELD.match(row)) is not None}
    kind = "AssertionError" if fields.get("code") == "ERR_ASSERTION" or "operator" in fields else fields.get("name", "")
    message, rows = fields.get("error", ""), block
    if message in ("|-", "|"):
        position = next(index for index, row in enumerate(block) if _FIELD.match(row) and " error:" in row)
        message = next((row.strip() for row in block[position + 1 :] if row.strip()), "")
    if not kind:
        rows = [row.removeprefix("# ") for row in before]
        text = "\n".join(rows)
        error = _ERROR.search(text)
        kind, message = (error[1], error[2]) if error is not None else (_CRASH_KIND, message)
        kind = "AssertionError" if _ASSERTION.search(text) else kind
    return TestEnd(test, "call", "failed", kind, message, tuple(_list_places(rows, root))[:1])


def _list_places(rows: Iterable[str], root: Path) -> Iterator[tuple[str, int]]:
    """Yield the places of the project in traces, the innermost first."""
    for row in rows:
        match = _PLACE.search(row)
        if match is not None and match[1].startswith(f"{root}/") and "location:" not in row:
            yield os.path.relpath(match[1], root), int(match[2])


def _build_id(name: str, block: list[str], root: Path) -> str:
    """Return the id of a test: its file, and its name if that is another one."""
    location = next((match[2] for row in block if (match := _FIELD.match(row)) and match[1] == "location"), "")
    file = location.strip("'\"").rsplit(":", 2)[0].removeprefix("file://")
    path = os.path.relpath(file, root) if file.startswith(f"{root}/") else next(_list_places(block, root), ("", 0))[0]
    return path if name in (file, path) and path else f"{path}::{name}" if path else name
