"""read_lints: the project's own linters over the project as the agent sees it, without what they said before.

They run where nothing that they do stays, over the shadow and over the user's files; only the difference is told.
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
from core.lsp.findings import find_new_diagnostics
from core.protocol.language import Diagnostic
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

# Linters that say nothing which a language server of the same has not said.
COVERED: Final = {"ruff": ("ruff",), "pyright": ("pyright", "basedpyright")}
_MOST_FILES = 200
_MOST_JOBS = 6
_SHOWN = 60
_LAST_LINES = 5
_CONFIGURATION = 1_000_000


class _LintResult(Struct, frozen=True, kw_only=True):
    """The outcome of a linter in a directory: new problems, how many older ones, or why nothing is known."""

    name: str
    directory: str = "."
    new: Sequence[Diagnostic] = ()
    older: int = 0
    trouble: str = ""


class ReadLints(ReadTool, frozen=True, kw_only=True):
    name: ClassVar[str] = "read_lints"
    argument_names: ClassVar = {"path": "paths", "files": "paths", "target_file": "paths"}

    named: Annotated[
        tuple[str, ...], Meta(max_length=50, description="Files or folders; all pending edits by default.")
    ] = msgspec.field(default=(), name="paths")

    def subject(self) -> str:
        return ", ".join(self.named) or "pending edits"

    def paths(self) -> tuple[str, ...]:
        return self.named

    async def run(self, capability: Reader) -> ToolOutcome:
        files = self._list_files(capability)
        if not files:
            return ToolOutcome(content="No edit is pending here, so there is nothing new to find.", summary="nothing")
        served = await self._ask_servers(capability, files)
        jobs = plan_jobs(files, lambda linter, place: _is_configured(capability, linter, place))
        known = {each.name for each in served}
        jobs = [each for each in jobs if not known.intersection(COVERED.get(each.linter, ()))]
        if not jobs and not served:
            return ToolOutcome(
                content=f"No linter of this project speaks of {_abbreviate(files)} (known: {', '.join(LINTERS)}).",
                summary="no linter",
            )
        found = await asyncio.gather(*(self._run_linter(capability, job) for job in jobs[:_MOST_JOBS]))
        return _format_outcome([*served, *(_drop_served(each, served) for each in found)], len(jobs) - len(found))

    async def _ask_servers(self, reader: Reader, files: Sequence[str]) -> list[_LintResult]:
        """Return what language servers find new, one result for each of them."""
        reported = await reader.diagnose(tuple(files))
        names = dict.fromkeys(name for each in reported for name in each.sources)
        return [
            _LintResult(
                name=name, new=[found for each in reported for found in each.diagnostics if found.source == name]
            )
            for name in names
        ]

    def _list_files(self, reader: Reader) -> list[str]:
        """The named files, and what is pending in the named folders (or anywhere)."""
        pending = [path for path, change in reader.pending_paths().items() if change != "delete"]
        files: list[str] = []
        for name in self.named or (".",):
            path = reader.relative(name)
            if require_present(reader, path).kind == "directory":
                files += [each for each in pending if path == "." or each.startswith(f"{path}/")]
            else:
                files.append(path)
        return list(dict.fromkeys(files))[:_MOST_FILES]

    async def _run_linter(self, reader: Reader, job: LintJob) -> _LintResult:
        try:
            now, before = await asyncio.gather(reader.lint(job, pending=True), reader.lint(job, pending=False))
        except AgentTuiError as problem:
            return _LintResult(name=job.linter, directory=job.directory, trouble=problem.format_with_hint())
        seen, old = (
            self._filter_problems(reader, parse_problems(job, run.output, reader.root)) for run in (now, before)
        )
        new = find_new_diagnostics(seen, old)
        return _LintResult(
            name=job.linter,
            directory=job.directory,
            new=new,
            older=len(seen) - len(new),
            trouble=_describe_trouble(now, seen),
        )

    def _filter_problems(self, reader: Reader, found: list[Diagnostic]) -> list[Diagnostic]:
        named = [reader.relative(each) for each in self.named]
        if not named or "." in named:
            return found
        return [each for each in found if any(each.path == name or each.path.startswith(f"{name}/") for name in named)]


def _drop_served(result: _LintResult, served: Sequence[_LintResult]) -> _LintResult:
    """Return a linter's result without what a language server said of the same line in the same words."""
    said = {(each.path, each.line): each.message for server in served for each in server.new}
    left = [each for each in result.new if (said.get((each.path, each.line)) or "\0") not in each.message]
    return replace(result, new=left)


def _is_configured(reader: Reader, linter: Linter, directory: str) -> bool:
    place = PurePosixPath(directory)
    if any(reader.stat(str(place / mark)) is not None for mark in linter.marks):
        return True
    for name, words in linter.within.items():
        path = str(place / name)
        stat = reader.stat(path)
        if stat is not None and stat.kind == "file" and words.encode() in reader.read_bytes(path, _CONFIGURATION):
            return True
    return False


def _describe_trouble(run: LintRun, seen: Sequence[Diagnostic]) -> str:
    """Return why a run says nothing; "" when it did its work."""
    if run.exit_code == NOT_INSTALLED:
        return "is not installed here"
    if run.ended == "timed_out":
        return "did not finish in time"
    if run.exit_code is None:
        return f"was stopped ({run.ended.replace('_', ' ')})"
    if run.exit_code == 0 or seen:
        return ""
    last = [line.strip()[:300] for line in run.output.splitlines() if re.search(r"\w", line)][-_LAST_LINES:]
    return f"failed with exit code {run.exit_code}" + "".join(f"\n  {line}" for line in last)


def _format_outcome(found: Sequence[_LintResult], left: int) -> ToolOutcome:
    rows: list[str] = []
    shown = 0
    for each in found:
        rows.append(_format_head(each))
        rows += [f"  {_format_problem(problem)}" for problem in each.new[: max(0, _SHOWN - shown)]]
        shown += len(each.new)
    if shown > _SHOWN:
        rows.append(f"[... {shown - _SHOWN} more; name fewer paths]")
    if left:
        rows.append(f"[{left} more linters were not run; name fewer paths]")
    return ToolOutcome(content="\n".join(rows), summary=f"{shown} new" if shown else "nothing new")


def _format_head(found: _LintResult) -> str:
    where = "" if found.directory == "." else f" in {found.directory}"
    if found.trouble:
        return f"{found.name}{where} {found.trouble}"
    count = f"{len(found.new)} new problem{'' if len(found.new) == 1 else 's'}" if found.new else "nothing new"
    older = f" ({found.older} older, not shown)" if found.older else ""
    return f"{found.name}{where}: {count}{older}"


def _format_problem(problem: Diagnostic) -> str:
    line = f":{problem.line}" if problem.line else ""
    column = f":{problem.column}" if problem.line and problem.column else ""
    code = f" [{problem.code}]" if problem.code else ""
    return f"{problem.path}{line}{column}: {problem.message.partition(chr(10))[0]}{code}"


def _abbreviate(files: Sequence[str]) -> str:
    return ", ".join(files[:3]) + (f" and {len(files) - 3} more" if len(files) > 3 else "")
