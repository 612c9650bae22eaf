"""The lines that a run executed, from the reports of runners that count them themselves: Go, jest, vitest, Ruby.

Such a report counts for the whole run, so it says which lines ran in tests, and not in which. It also lists the lines
that can run. Options that write it are added to one run only, whose text is the pending one.

Sources: `go help testflag` and the profile's format (golang.org/x/tools/cover), Istanbul's coverage JSON
(`coverage-final.json`), vitest's `coverage` options, and Ruby's `Coverage.peek_result`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from math import inf
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from core.patterns import compile_lazily
from core.proof.runs.commands import CheckCommand
from core.proof.runs.executed_lines import list_script_lines
from core.proof.runs.records import RECORDER, Lines, add_lines, read_run_file
from core.records import decode_json
from core.syntax.grammars import parse_syntax

GO_ENDING: Final = ".go"
RUBY_ENDING: Final = ".rb"
_GO_PROFILE: Final = "go.cover"
_ISTANBUL: Final = "istanbul/coverage-final.json"
_GO_BLOCK: Final = compile_lazily(r"(?P<name>.+):(\d+)\.(\d+),(\d+)\.(\d+) \d+ (\d+)")
_GO_MODULE: Final = compile_lazily(r"^module\s+\"?([^\s\"]+)", re.MULTILINE)
_NO_STATEMENT: Final = compile_lazily(r"\s*(?:[})\]]*[,;]?\s*)?(?://.*)?")
_GO_OPTIONS: Final = "-coverprofile={directory}/go.cover -coverpkg=./..."
_JEST_OPTIONS: Final = (
    "--coverage --coverageReporters=json --coverageDirectory={directory}/istanbul --coverageThreshold='{{}}'"
)
_VITEST_OPTIONS: Final = (
    "--coverage.enabled --coverage.reporter=json --coverage.reportOnFailure"
    " --coverage.reportsDirectory={directory}/istanbul --coverage.thresholds.lines=0 --coverage.thresholds.branches=0"
    " --coverage.thresholds.functions=0 --coverage.thresholds.statements=0"
)
_VITEST_PROVIDERS: Final = ("coverage-v8", "coverage-istanbul")
_RUBY_RECORDER: Final = RECORDER / "agent_tui_coverage.rb"
_RUBY_METHODS: Final = frozenset({"method", "singleton_method"})


class LineReport(Struct):
    """The executed lines of a whole run. `called`: those of functions; `loaded`: those that ran when a file was loaded;
    `executable`: those that can run, of each file that the report knows."""

    called: Lines = {}
    loaded: Lines = {}
    executable: Lines = {}


def build_report_options(check: CheckCommand, directory: Path, root: Path) -> str:
    """Return the options with which a runner writes a report below `directory`, "" = it can't, or counts lines in
    another way already. `root`: of the project, where packages are installed."""
    if check.runner == "go":
        return "" if "-cover" in check.text else _GO_OPTIONS.format(directory=directory)
    if check.runner == "jest":
        return _JEST_OPTIONS.format(directory=directory)
    has_provider = any((root / "node_modules" / "@vitest" / name).is_dir() for name in _VITEST_PROVIDERS)
    return _VITEST_OPTIONS.format(directory=directory) if check.runner == "vitest" and has_provider else ""


def build_ruby_options(options: str) -> str:
    """Return the variable `RUBYOPT` with which Ruby loads the recorder. `options`: its value now."""
    return f"{options} -r{_RUBY_RECORDER}".strip() if " " not in str(_RUBY_RECORDER) else options


def read_line_report(directory: Path, root: Path, sources: Mapping[str, bytes], go_module: str) -> LineReport:
    """Read the reports of a run. `sources`: the files whose lines count, by path; `go_module`: the text of `go.mod`."""
    report = LineReport()
    texts = {path: data.decode("utf-8", "replace").split("\n") for path, data in sources.items()}
    match = _GO_MODULE.search(go_module)
    profile = read_run_file(directory, _GO_PROFILE)
    if match is not None and profile:
        _read_go(report, profile, match[1], texts)
    if istanbul := read_run_file(directory, _ISTANBUL):
        _read_istanbul(report, istanbul, root, texts)
    for path in sorted(directory.glob("ruby-*.lines")):
        _read_ruby(report, read_run_file(directory, path.name).decode("utf-8", "replace"), root, texts)
    return report


def _read_go(report: LineReport, profile: bytes, module: str, texts: Mapping[str, list[str]]) -> None:
    """A line counts where its first character lies in a block, which is a run of statements without a branch; of a
    block that is only the end of a line, that line."""
    blocks = defaultdict[str, list[tuple[tuple[int, int], tuple[int, int], bool]]](list)
    for row in profile.decode("utf-8", "replace").split("\n"):
        if (match := _GO_BLOCK.fullmatch(row)) is not None:
            numbers = [int(number) for number in match.groups()[1:]]
            start, end = (numbers[0], numbers[1]), (numbers[2], numbers[3])
            blocks[match["name"].removeprefix(f"{module}/")].append((start, end, numbers[4] > 0))
    for path in blocks.keys() & texts.keys():
        called, executable = set[int](), set[int]()
        for start, end, has_run in blocks[path]:
            numbers = [
                number
                for number, line in enumerate(texts[path][start[0] - 1 : end[0]], start[0])
                if start <= (number, len(line) - len(line.lstrip()) + 1) < end and not _NO_STATEMENT.fullmatch(line)
            ]
            numbers = numbers or [start[0]]
            executable.update(numbers)
            called.update(numbers if has_run else ())
        add_lines(report.called, {path: frozenset(called)})
        add_lines(report.executable, {path: frozenset(executable)})


class _Place(Struct):
    line: int
    column: int | None = None  # in reports made from the counts of the engine: the end of a line

    @property
    def key(self) -> tuple[int, float]:
        """The place in the order of the text."""
        return self.line, inf if self.column is None else self.column


class _Extent(Struct):
    start: _Place
    end: _Place


class _Function(Struct):
    loc: _Extent


class _IstanbulFile(Struct, rename="camel"):
    path: str
    statement_map: dict[str, _Extent]
    s: dict[str, int]
    fn_map: dict[str, _Function] = {}


def _read_istanbul(report: LineReport, data: bytes, root: Path, texts: Mapping[str, list[str]]) -> None:
    """Statements count on the line on which they begin. Vitest counts all other lines, too."""
    try:
        files = decode_json(data, dict[str, _IstanbulFile])
    except msgspec.MsgspecError:
        return
    for file in files.values():
        path = file.path.removeprefix(f"{root}/")
        if path not in texts:
            continue
        executed = [extent.start for key, extent in file.statement_map.items() if file.s.get(key)]
        functions = [function.loc for function in file.fn_map.values()]
        called = {
            place.line for place in executed if any(loc.start.key <= place.key < loc.end.key for loc in functions)
        }
        add_lines(report.called, {path: frozenset(called)})
        add_lines(report.loaded, {path: frozenset(place.line for place in executed) - called})
        executable = frozenset(extent.start.line for extent in file.statement_map.values())
        statements = list_script_lines({path: "\n".join(texts[path]).encode()}).get(path) or executable
        add_lines(report.executable, {path: executable & statements})


def _read_ruby(report: LineReport, text: str, root: Path, texts: Mapping[str, list[str]]) -> None:
    """Each row is a path and, behind a tab, the count of each line, `-` for one that can't run."""
    for row in text.split("\n"):
        name, _, counts = row.partition("\t")
        path = name.removeprefix(f"{root}/")
        if path not in texts or not counts:
            continue
        executable = {number for number, value in enumerate(counts.split(","), 1) if value.isdigit()}
        executed = {number for number, value in enumerate(counts.split(","), 1) if value.isdigit() and int(value)}
        inside = _find_method_lines(path, "\n".join(texts[path]))
        add_lines(report.called, {path: frozenset(executed & inside)})
        add_lines(report.loaded, {path: frozenset(executed - inside)})
        add_lines(report.executable, {path: frozenset(executable)})


def _find_method_lines(path: str, text: str) -> frozenset[int]:
    """Return the lines in methods of Ruby, without those on which they begin, which run when a file is loaded."""
    root, lines = parse_syntax(path, text), set[int]()
    waiting = [root] if root is not None else []
    while waiting:
        node = waiting.pop()
        if node.type in _RUBY_METHODS:
            lines.update(range(node.start_point[0] + 2, node.end_point[0] + 2))
        waiting.extend(node.named_children)
    return frozenset(lines)
