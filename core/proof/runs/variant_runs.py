"""Runs of one check over variants of the pending text: each in a layer of its own, none of which leaves anything."""

from __future__ import annotations

import asyncio
import os
import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from core.filesystem.private_files import make_private_directory
from core.filesystem.removal import remove_tree
from core.ids import new_id
from core.patterns import compile_lazily
from core.proof.runs.commands import CheckCommand, follow_script
from core.proof.runs.executed_lines import list_script_lines
from core.proof.runs.line_reports import (
    RUBY_ENDING,
    build_report_options,
    build_ruby_options,
    read_line_report,
)
from core.proof.runs.printed_ends import read_printed_ends
from core.proof.runs.records import ANY_TEST, IMPORT, RECORDER, RecordDirectory, RunRecord, add_lines, build_environment
from core.proof.runs.v8_coverage import ENDINGS, read_v8_lines
from core.protocol.review import Change
from core.sandbox.results import CommandResult
from core.shadow.layers.layer_store import LayerStore
from core.shell.command_host import CommandHost
from core.shell.verification.clean_layer import CleanLayer, CleanRunOptions, FileVariant
from core.shell.verification.steering_files import is_test_file
from core.state.checks import find_run_counts
from core.tasks import finish_in_thread

Red = Literal["assertion", "crash", "hang", "unknown"]

# Caches of one variant must serve no other, and a snapshot that is missing must not be written.
_ENVIRONMENT: Final = {
    "CI": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
}
# Each run has a network, a `/tmp` and layers of its own, so they don't meet. Half of the processors are left alone.
_PROCESSORS: Final = os.cpu_count() or 1
AT_ONCE: Final = min(_PROCESSORS, max(2, min(4, _PROCESSORS // 2)))
# Whatever else the machine does comes first; a session of processes may have a priority of its own.
_BACK: Final = "{ renice -n 15 -p $$; echo 15 >/proc/$$/autogroup; } >/dev/null 2>&1\n"
_NO_TESTS: Final = 5  # pytest's exit code
# The program could not be built, or ended by a fault: nothing was compared.
_BROKEN: Final = compile_lazily(r"^panic: |^error\[E\d+\]|^error TS\d+|\[build failed\]|\bSyntaxError\b", re.MULTILINE)
_ASSERTION: Final = compile_lazily(
    r"\bAssertionError\b|\bERR_ASSERTION\b|^E\s+assert\b|\bexpect\(|^\s*--- FAIL:|\bassertion [`'\w ]*failed"
    r"|\bAssertionFailedError\b|\bExpectationNotMet|\bComparisonFailure\b|\bFailed asserting\b",
    re.MULTILINE,
)
_CRASH: Final = compile_lazily(
    r"\b(?:Name|Import|ModuleNotFound|Attribute|Type|Indentation|Reference|UnboundLocal|NoMethod)Error\b"
    r"|\bundefined: |\bcannot find (?:symbol|module|name)\b"
)


class VariantResult(Struct, frozen=True):
    """The end of one run and its record."""

    result: CommandResult
    record: RunRecord = RunRecord()

    @property
    def is_green(self) -> bool:
        """True if the check passed, and ran at least one test where its tests are counted."""
        if self.result.exit_code != 0 or self.record.failures:
            return False
        counts = find_run_counts(self.result.output, 0)
        return counts is None or bool(counts.passed)

    @property
    def is_unclear(self) -> bool:
        """True if the run says nothing: it ran no test, or could not be run."""
        exit_code = self.result.exit_code
        has_no_result = exit_code is None or exit_code in (_NO_TESTS, 126, 127) or self.result.unproven != ""
        return has_no_result and not self.result.timed_out

    def classify_red(self) -> Red:
        """Return how a run that is not green ended."""
        if self.result.timed_out:
            return "hang"
        if failures := self.record.failures:
            is_assertion = any(end.kind == "AssertionError" and end.phase == "call" for end in failures)
            return "assertion" if is_assertion else "crash"
        if _ASSERTION.search(self.result.output) and not _BROKEN.search(self.result.output):
            return "assertion"
        return "crash" if _BROKEN.search(self.result.output) or _CRASH.search(self.result.output) else "unknown"


class VariantRuns:
    """The runs of one check over the changes `text`. `paths`: the files whose lines are recorded. Call `open` once, and
    `close` at the end. `left_out`: tests that no run has to do with any more; `count` and `seconds`: of all runs."""

    def __init__(
        self, host: CommandHost, text: Mapping[str, Change], check: CheckCommand, paths: Sequence[str]
    ) -> None:
        self._host = host
        self.check = check
        self._paths = tuple(paths)
        self._directory = host.directory / new_id("proof")
        self._layer = CleanLayer(host, text, LayerStore(self._directory / "layers"))
        self._slots = asyncio.Semaphore(AT_ONCE)
        self.left_out = frozenset[str]()
        self.count = 0
        self.seconds = 0.0

    async def open(self) -> None:
        """Lay out the text. Raises `AgentTuiError` if nothing can be run, or OSError."""
        make_private_directory(self._directory)
        await self._layer.open()
        self.check = follow_script(self.check, await asyncio.to_thread(self._read_text, "package.json"))

    async def close(self) -> None:
        """Remove everything. Call it also when `open` has failed."""
        self._layer.close()
        await finish_in_thread(remove_tree, self._directory)

    async def run(
        self,
        variants: Mapping[str, FileVariant] | None = None,
        *,
        tests: Collection[str] = (),
        files: Collection[str] = (),
        is_brief: bool = False,
        has_lines: bool = False,
        seconds: float,
    ) -> VariantResult:
        """Run the check, or only some of its tests or those of some files, over the text with other content in some
        files. At most `AT_ONCE` runs go on at once, the others wait. `is_brief`: only until the first failure;
        `has_lines`: the executed lines are recorded. A check that takes no names runs whole. Cancelling it stops what
        runs. Raises `AgentTuiError` if it can't be started."""
        paths = self._paths if has_lines else ()
        directory = RecordDirectory(self._directory / new_id("record"), self._host.workspace.root, paths)
        wanted = {*files, *(test.partition("::")[0] for test in tests)} if self.check.takes_files else set[str]()
        environment = self._host.build_environment()
        report = build_report_options(self.check, directory.location, directory.root) if has_lines else ""
        options = CleanRunOptions(
            seconds=seconds,
            variants=dict(variants or {}),
            env=_ENVIRONMENT
            | build_environment(directory.location, environment)
            | self._build_coverage(directory, environment),
            readable=(RECORDER,),
            writable=((directory.location, directory.location),),
        )
        command = _BACK + self.check.build(wanted, is_brief=is_brief, report=report)
        async with self._slots:
            await finish_in_thread(lambda left_out: directory.prepare(tests, left_out), self.left_out)
            try:
                result = await self._layer.run(command, lambda _: None, options)
                self.count += 1
                self.seconds += result.duration_ms / 1000
                return VariantResult(result, await asyncio.to_thread(self._read, directory, result))
            finally:
                await finish_in_thread(remove_tree, directory.location)

    def _build_coverage(self, directory: RecordDirectory, environment: Mapping[str, str]) -> dict[str, str]:
        """Return the variables that make Node and Ruby write what they executed."""
        variables = dict[str, str]()
        if any(path.endswith(ENDINGS) for path in directory.paths):
            variables["NODE_V8_COVERAGE"] = str(directory.location)
        if any(path.endswith(RUBY_ENDING) for path in directory.paths):
            variables["RUBYOPT"] = build_ruby_options(environment.get("RUBYOPT", ""))
        return variables

    def _read(self, directory: RecordDirectory, result: CommandResult) -> RunRecord:
        """Return what the run recorded itself, and what its output tells where that is nothing."""
        record = directory.read()
        ends = () if record.ends else read_printed_ends(result.output, directory.root, is_red=result.exit_code != 0)
        lines = defaultdict[str, dict[str, frozenset[int]]](dict, record.lines)
        executable = dict[str, frozenset[int]]()
        sources = {path: self._layer.read(path) for path in directory.paths if not path.endswith(".py")}
        if sources:
            go_module = self._read_text("go.mod").decode("utf-8", "replace")
            report = read_line_report(directory.location, directory.root, sources, go_module)
            executable = report.executable
            add_lines(lines[ANY_TEST], report.called)
            add_lines(lines[IMPORT], report.loaded)
        scripts = {path: data for path, data in sources.items() if path.endswith(ENDINGS) and path not in executable}
        processes = [*read_v8_lines(directory.location, directory.root, scripts, is_test_file)] if scripts else []
        for process in processes:
            add_lines(lines[process.test or ANY_TEST], process.called)
            add_lines(lines[IMPORT], process.loaded)
        if any(process.test for process in processes):
            unread = frozenset[str]().union(*(process.unread for process in processes))
            executable |= list_script_lines({path: scripts[path] for path in scripts.keys() - unread})
        return replace(record, lines=dict(lines), executable=executable, ends=record.ends or ends)

    def _read_text(self, path: str) -> bytes:
        """Return a file of the text, changed or not; empty if it can't be read."""
        with suppress(OSError):
            return self._layer.read(path) or (self._host.workspace.root / path).read_bytes()
        return b""
