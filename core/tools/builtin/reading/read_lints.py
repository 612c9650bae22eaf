"""read_lints: the new problems of the project's own linters over the project as the agent sees it.

The linters run in disposable layers, over the shadow and over the user's files; only the difference is reported.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Annotated, ClassVar, Final

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from core.errors import AgentTuiError
from core.lsp.diagnostics import find_new_diagnostics
from core.protocol.language import Diagnostic
from core.protocol.paths import is_below
from core.text.counting import count
from core.tools.base import LintRun, Reader, ReadTool, ToolOutcome
from core.tools.builtin.editing.edit_targets import require_present
from core.tools.linters import (
    LINTERS,
    NOT_INSTALLED,
    Linter,
    LintJob,
    parse_problems,
    plan_jobs,
)

# Linters that report nothing beyond the language server of the same tool.
COVERED: Final = {"ruff": ("ruff",), "pyright": ("pyright", "basedpyright")}
_MOST_FILES = 200
_MOST_JOBS = 6
_SHOWN = 60
_LAST_LINES = 5
_CONFIGURATION = 1_000_000


class _LintResult(Struct, frozen=True, kw_only=True):
    """The result of a linter in a directory: new problems, the number of older ones, or why it has no result."""

    name: str
    directory: str = "."
    new: Sequence[Diagnostic] = ()
    older: int = 0
    trouble: str = ""


class ReadLints(ReadTool, frozen=True, kw_only=True):
    name: ClassVar[str] = "read_lints"
    argument_names: ClassVar = dict.fromkeys(("path", "files", "file_path", "file_paths", "target_file"), "paths")

    named: Annotated[
        tuple[str, ...], Meta(max_length=50, description="Files or folders; default: all pending edits.")
    ] = msgspec.field(default=(), name="paths")

    def subject(self) -> str:
        return ", ".join(self.named) or "pending edits"

    def paths(self) -> tuple[str, ...]:
        return self.named

    async def run(self, capability: Reader) -> ToolOutcome:
        files = self._list_files(capability)
        if not files:
            return ToolOutcome(
                content="There are no pending edits, so there is nothing new to find.", summary="nothing"
            )
        server_results = await self._ask_servers(capability, files)
        jobs = plan_jobs(files, lambda linter, directory: _is_configured(capability, linter, directory))
        server_names = {lint_result.name for lint_result in server_results}
        jobs = [lint_job for lint_job in jobs if not server_names.intersection(COVERED.get(lint_job.linter, ()))]
        if not jobs and not server_results:
            return ToolOutcome(
                content=f"No linter of this project covers {_abbreviate(files)} (known: {', '.join(LINTERS)}).",
                summary="no linter",
            )
        linter_results = await asyncio.gather(*(self._run_linter(capability, job) for job in jobs[:_MOST_JOBS]))
        return _format_outcome(
            [*server_results, *(_drop_served(lint_result, server_results) for lint_result in linter_results)],
            len(jobs) - len(linter_results),
        )

    async def _ask_servers(self, reader: Reader, files: Sequence[str]) -> list[_LintResult]:
        """Return the new problems of language servers, one result per server."""
        reports = await reader.diagnose(tuple(files))
        names = dict.fromkeys(name for report in reports for name in report.sources)
        return [
            _LintResult(
                name=name,
                new=[
                    diagnostic for report in reports for diagnostic in report.diagnostics if diagnostic.source == name
                ],
            )
            for name in names
        ]

    def _list_files(self, reader: Reader) -> list[str]:
        """Return the named files, and the pending files in the named folders (or anywhere)."""
        pending = [path for path, change in reader.pending_paths().items() if change != "delete"]
        files: list[str] = []
        for name in self.named or (".",):
            path = reader.relative(name)
            if require_present(reader, path).kind == "directory":
                files += [
                    pending_path for pending_path in pending if path == "." or pending_path.startswith(f"{path}/")
                ]
            else:
                files.append(path)
        return list(dict.fromkeys(files))[:_MOST_FILES]

    async def _run_linter(self, reader: Reader, job: LintJob) -> _LintResult:
        try:
            new_run, old_run = await asyncio.gather(reader.lint(job, pending=True), reader.lint(job, pending=False))
        except AgentTuiError as problem:
            return _LintResult(name=job.linter, directory=job.directory, trouble=problem.format_with_hint())
        diagnostics, old = (
            self._filter_problems(reader, parse_problems(job, run.output, reader.root)) for run in (new_run, old_run)
        )
        new = find_new_diagnostics(diagnostics, old)
        return _LintResult(
            name=job.linter,
            directory=job.directory,
            new=new,
            older=len(diagnostics) - len(new),
            trouble=_describe_trouble(new_run, diagnostics),
        )

    def _filter_problems(self, reader: Reader, diagnostics: list[Diagnostic]) -> list[Diagnostic]:
        named_paths = [reader.relative(target) for target in self.named]
        if not named_paths or "." in named_paths:
            return diagnostics
        return [
            diagnostic for diagnostic in diagnostics if any(is_below(diagnostic.path, name) for name in named_paths)
        ]


def _drop_served(result: _LintResult, server_results: Sequence[_LintResult]) -> _LintResult:
    """Return a linter's result without problems that a language server reported for the same line in the same words."""
    messages = {
        (diagnostic.path, diagnostic.line): diagnostic.message for server in server_results for diagnostic in server.new
    }
    diagnostics = [
        diagnostic
        for diagnostic in result.new
        if (messages.get((diagnostic.path, diagnostic.line)) or "\0") not in diagnostic.message
    ]
    return replace(result, new=diagnostics)


def _is_configured(reader: Reader, linter: Linter, directory: str) -> bool:
    directory_path = PurePosixPath(directory)
    if any(reader.stat(str(directory_path / mark)) is not None for mark in linter.marks):
        return True
    for name, words in linter.within.items():
        path = str(directory_path / name)
        stat = reader.stat(path)
        if stat is not None and stat.kind == "file" and words.encode() in reader.read_bytes(path, _CONFIGURATION):
            return True
    return False


def _describe_trouble(run: LintRun, diagnostics: Sequence[Diagnostic]) -> str:
    """Return why a run has no result; "" if it worked."""
    if run.exit_code == NOT_INSTALLED:
        return "is not installed here"
    if run.ended == "timed_out":
        return "did not finish in time"
    if run.exit_code is None:
        return f"was stopped ({run.ended.replace('_', ' ')})"
    if run.exit_code == 0 or diagnostics:
        return ""
    last = [line.strip()[:300] for line in run.output.splitlines() if re.search(r"\w", line)][-_LAST_LINES:]
    return f"failed with exit code {run.exit_code}" + "".join(f"\n  {line}" for line in last)


def _format_outcome(lint_results: Sequence[_LintResult], skipped_count: int) -> ToolOutcome:
    rows: list[str] = []
    problem_count = 0
    for lint_result in lint_results:
        rows.append(_format_head(lint_result))
        rows += [f"  {_format_problem(problem)}" for problem in lint_result.new[: max(0, _SHOWN - problem_count)]]
        problem_count += len(lint_result.new)
    if problem_count > _SHOWN:
        rows.append(f"[... {problem_count - _SHOWN} more; name fewer paths]")
    if skipped_count:
        rows.append(f"[{skipped_count} more linters were not run; name fewer paths]")
    return ToolOutcome(content="\n".join(rows), summary=f"{problem_count} new" if problem_count else "nothing new")


def _format_head(lint_result: _LintResult) -> str:
    location = "" if lint_result.directory == "." else f" in {lint_result.directory}"
    if lint_result.trouble:
        return f"{lint_result.name}{location} {lint_result.trouble}"
    news = count("new problem", len(lint_result.new)) if lint_result.new else "nothing new"
    older = f" ({lint_result.older} older, not shown)" if lint_result.older else ""
    return f"{lint_result.name}{location}: {news}{older}"


def _format_problem(problem: Diagnostic) -> str:
    line = f":{problem.line}" if problem.line else ""
    column = f":{problem.column}" if problem.line and problem.column else ""
    code = f" [{problem.code}]" if problem.code else ""
    return f"{problem.path}{line}{column}: {problem.message.partition(chr(10))[0]}{code}"


def _abbreviate(files: Sequence[str]) -> str:
    return ", ".join(files[:3]) + (f" and {len(files) - 3} more" if len(files) > 3 else "")
