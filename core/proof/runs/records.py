"""All that a run of tests has recorded of itself: the lines that each test executed, and how each test ended.

The record comes from a process that runs the project's code, so it can be forged. It only says where to look: what a
hunk is worth is decided by runs over variants of the text, whose results are compared.
"""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec
from msgspec import Struct

from core.records import decode_json

RECORDER: Final = Path(__file__).parents[1] / "inside"
VARIABLE: Final = "AGENT_TUI_RECORD"
IMPORT: Final = ""  # the name of the test to which lines outside of tests belong
ANY_TEST: Final = "*"  # that of the test to which lines belong that ran in one of several
_MOST_BYTES: Final = 256 << 20  # of one process

Outcome = Literal["passed", "failed", "skipped", "xfailed"]
Lines = dict[str, frozenset[int]]  # lines (1-indexed) by path, relative to the project


class TestEnd(Struct, frozen=True):
    """The end of a test, or of the collection of a file. `phase`: setup, call, teardown or collect; `kind`: the class
    of the exception; `places`: the files (relative to the project if they are in it) and lines of its traceback."""

    test: str
    phase: str
    outcome: Outcome
    kind: str = ""
    message: str = ""
    places: tuple[tuple[str, int], ...] = ()


class RunRecord(Struct, frozen=True):
    """The records of all processes of a run. `lines`: the executed lines (1-indexed) of each recorded file, by test;
    `executable`: the lines that can be executed of files in other languages than Python, where that is known; `ends`:
    of each test that ended; `collected`: how many tests the runner found, None = none was recognised; `was_cut_off`: a
    runner was heard, and none of its tests."""

    lines: dict[str, dict[str, frozenset[int]]] = {}
    executable: dict[str, frozenset[int]] = {}
    ends: tuple[TestEnd, ...] = ()
    collected: int | None = None
    was_cut_off: bool = False

    @property
    def failures(self) -> list[TestEnd]:
        """The ends of what failed, in their order, but for what a runner then tried again and that passed."""
        last = {(end.test, end.phase): end for end in self.ends}
        return [end for end in last.values() if end.outcome == "failed"]

    @property
    def passed_tests(self) -> frozenset[str]:
        """The tests that passed, and did not fail before or after it."""
        failed = {end.test for end in self.failures}
        return frozenset(end.test for end in self.ends if end.outcome == "passed" and end.test not in failed)

    def find_tests(self, path: str, lines: Collection[int]) -> frozenset[str]:
        """Return the tests that executed one of these lines of a file; `IMPORT` = they ran outside of a test."""
        return frozenset(
            test for test, files in self.lines.items() if not files.get(path, frozenset()).isdisjoint(lines)
        )

    def list_lines(self, path: str) -> frozenset[int]:
        """Return the lines of a file that ran at all."""
        return frozenset[int]().union(*(files.get(path, frozenset()) for files in self.lines.values()))


class RecordDirectory(Struct, frozen=True):
    """The directory in which one run records itself. `paths`: the files, relative to `root`, whose lines count."""

    location: Path
    root: Path
    paths: Sequence[str]

    def prepare(self, only: Iterable[str] = (), without: Iterable[str] = ()) -> None:
        """Make it, empty. `only`: the tests to run, () = all; `without`: those to leave out. Raises OSError."""
        shutil.rmtree(self.location, ignore_errors=True)
        self.location.mkdir(parents=True, mode=0o700)
        files = [str(self.root / path) for path in self.paths]
        (self.location / "files.json").write_bytes(msgspec.json.encode(files))
        selection = {"only": sorted(only), "without": sorted(without)}
        (self.location / "select.json").write_bytes(msgspec.json.encode(selection))

    def read(self) -> RunRecord:
        """Return the record of the run; empty if nothing was recorded."""
        lines = defaultdict[str, dict[str, set[int]]](lambda: defaultdict(set))
        ends, collected = list[TestEnd](), list[int]()
        for path in sorted(self.location.glob("process-*.json")):
            process = self._read_process(path)
            for test, places in process.lines.items():
                for number, line in places:
                    if 0 <= number < len(self.paths):
                        lines[test][self.paths[number]].add(line)
            ends += [self._build_end(*result) for result in process.results]
            collected += [process.collected] if process.collected is not None else []
        frozen_lines = {
            test: {path: frozenset(numbers) for path, numbers in files.items()} for test, files in lines.items()
        }
        began = any(self.location.glob("process-*.begun"))
        return RunRecord(frozen_lines, {}, tuple(ends), max(collected, default=None), began and not collected)

    def _read_process(self, path: Path) -> _Process:
        try:
            return decode_json(read_run_file(self.location, path.name), _Process)
        except msgspec.MsgspecError:
            return _Process()

    def _build_end(
        self, test: str, phase: str, outcome: Outcome, kind: str, message: str, places: list[tuple[str, int]]
    ) -> TestEnd:
        root = f"{self.root}/"
        return TestEnd(
            test, phase, outcome, kind, message, tuple((name.removeprefix(root), line) for name, line in places)
        )


class _Process(Struct):
    lines: dict[str, list[tuple[int, int]]] = {}
    results: list[tuple[str, str, Outcome, str, str, list[tuple[str, int]]]] = []
    collected: int | None = None


def read_run_file(directory: Path, name: str, most_bytes: int = _MOST_BYTES) -> bytes:
    """Return a file that a run wrote into a directory, and not one elsewhere to which it made a link; empty if there is
    none, or a larger one."""
    try:
        path = directory / name
        is_own = not path.is_symlink() and path.resolve(strict=True).is_relative_to(directory.resolve())
        return path.read_bytes() if is_own and path.stat().st_size <= most_bytes else b""
    except OSError:
        return b""


def add_lines(lines: Lines, others: Mapping[str, frozenset[int]]) -> None:
    """Add the lines of other files, or of the same ones, to lines by path."""
    for path, numbers in others.items():
        lines[path] = lines.get(path, frozenset()) | numbers


def build_environment(directory: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables with which a run records itself into a directory."""
    return {VARIABLE: str(directory), "PYTHONPATH": join_python_path(environment.get("PYTHONPATH", ""))}


def join_python_path(path: str) -> str:
    """Return a `PYTHONPATH` that begins with the recorder."""
    return f"{RECORDER}:{path}" if path else str(RECORDER)
