"""The PROBE capability: hypotheses, probes and runs of Debug mode. It writes no file of the user's.

Probes live in the session's state and nowhere else. A run lays them over the shadow, in a box whose effects are dropped
except for the log. So neither a verdict, nor a command, nor a crash can carry a probe into the project.

A probe must leave its file parseable, as the Python compiler or the grammar of the language decides, and must not split
a statement or end up in a string or comment.
"""

from __future__ import annotations

import io
import tokenize
from collections.abc import Callable

from msgspec.structs import replace

from core.agent.base.approvals import Approver
from core.agent.debug.debug_policy import remove_marks
from core.agent.debug.fix_verdict import FixReview
from core.agent.debug.probe_run import ProbeRunner
from core.debug.hypotheses import find_hypothesis, record_verdict, resolve_evidence
from core.debug.probe_records import decode_records
from core.debug.probe_regions import anchor_probe, check_probe_code, find_region_comments, has_regions, insert_probes
from core.errors import ToolFailed, ToolInputInvalid
from core.modes import Access
from core.protocol.debug import CauseVerdict, Hypothesis, Probe, ProbeRecord, ProbeRun
from core.protocol.events import HypothesesSet, HypothesisJudged, ProbeAdded, ProbeRemoved
from core.protocol.review import Origin
from core.shell.long_output import spill_output
from core.shell.probe_overlay import read_probed_file
from core.state.debugging import DebugState
from core.syntax.flaws import describe_flaw, find_new_flaws
from core.syntax.python_parser import find_compile_error
from core.syntax.symbols import find_position
from core.text.lines import split_lines
from core.tools.builtin.debugging import RemovedProbes, Reproduction, ReproductionReport

_PYTHON = (".py", ".pyi", ".pyw")
_HINT = "No probe was added. Give a corrected statement, or another line."
MAX_PROBES = 40


class DebugCapability:
    """The PROBE capability of one call. `check_lease` raises when the call has ended."""

    def __init__(
        self, approver: Approver, digests: dict[str, str], origin: Origin, check_lease: Callable[[], None]
    ) -> None:
        self._permissions = approver.permissions
        self._host = approver.permissions.terminal.host
        self._fix = FixReview(self._host, approver.user, digests)
        self._origin = origin
        self._check = check_lease
        self._runner = ProbeRunner(approver, self._fix, origin, check_lease)

    @property
    def _state(self) -> DebugState:
        return self._host.state.debug

    def hypotheses(self) -> tuple[Hypothesis, ...]:
        return tuple(self._state.hypotheses.values())

    def probes(self) -> tuple[Probe, ...]:
        return tuple(self._state.probes.values())

    def runs(self) -> tuple[ProbeRun, ...]:
        return tuple(self._state.runs.values())

    def set_hypotheses(self, hypotheses: tuple[Hypothesis, ...]) -> tuple[str, ...]:
        self._check()
        taken_back = self._fix.revert(replace(self._origin, tool="hypotheses_set"))
        self._host.emit(HypothesesSet(hypotheses=hypotheses, taken_back=taken_back))
        return taken_back

    def judge_hypothesis(self, name: str, verdict: CauseVerdict, evidence: tuple[str, ...], reason: str) -> Hypothesis:
        self._check()
        hypothesis = find_hypothesis(self.hypotheses(), name)
        cited_runs = {reference.partition(":")[0].strip() for reference in evidence}
        logs = {run: self.records(run) if run in cited_runs else () for run in self._state.runs}
        judged_hypothesis = record_verdict(hypothesis, verdict, resolve_evidence(evidence, logs), reason)
        self._host.emit(HypothesisJudged(hypothesis=judged_hypothesis))
        return judged_hypothesis

    def records(self, run: str) -> tuple[ProbeRecord, ...]:
        known_run = self._state.runs.get(run)
        if known_run is None:
            names = ", ".join(self._state.runs) or "none yet"
            raise ToolInputInvalid(f"There is no run {run!r}.", hint=f"Runs: {names}.")
        return decode_records(self._host.shadow.blobs.get(known_run.log)) if known_run.log else ()

    def add_probe(self, path: str, line: int, code: str, hypothesis: str) -> Probe:
        self._check()
        host, shadow = self._host, self._host.shadow
        if not self._permissions.terminal.is_contained:
            raise ToolFailed(
                "Probes can't be added here: this machine can't sandbox a run with them.",
                hint="Reproduce without probes, and cite the output.",
            )
        find_hypothesis(self.hypotheses(), hypothesis)
        if len(self._state.probes) >= MAX_PROBES:
            raise ToolInputInvalid(
                f"There are already {MAX_PROBES} probes.", hint="Remove those that log nothing useful."
            )
        real = shadow.merged_tree.resolve_links(host.workspace.to_relative(path))
        self._permissions.build_path_guard().check(Access.READ, real)
        check_probe_code(real, code)
        text = read_probed_file(shadow, real)[0].text
        name = f"p{self._state.probe_count + 1}"
        probe = anchor_probe(text, Probe(id=name, path=real, line=line, code=code, hypothesis=hypothesis))
        check_probe_syntax(real, text, insert_probes(text, [probe]).text, probe.line)
        host.emit(ProbeAdded(probe=probe))
        return probe

    async def remove_probes(self, names: tuple[str, ...]) -> RemovedProbes:
        self._check()
        present = self._state.probes
        unknown = [name for name in names if name not in present]
        if unknown:
            raise ToolInputInvalid(
                f"There is no probe {unknown[0]!r}.", hint=f"Active probes: {', '.join(present) or 'none'}."
            )
        probe_ids = names or tuple(present)
        verdict = await self._fix.ask_for_verdict(self._origin) if set(probe_ids) >= set(present) else None
        self._check()
        if verdict is not None and verdict.outcome == "broken":
            return RemovedProbes(verdict=f"{verdict.message} The probes are still active.")
        probe_ids = tuple(name for name in probe_ids if name in self._state.probes)
        if probe_ids:
            self._host.emit(ProbeRemoved(ids=probe_ids))
        if not self._state.probes and (marked_paths := remove_marks(self._host.shadow, self._state.probed_paths).paths):
            raise ToolFailed(f"Probe markers are left in {', '.join(marked_paths)}.", hint="Remove them with an edit.")
        return RemovedProbes(gone=probe_ids, verdict=verdict.message if verdict else "")

    def save_output(self, run: str, text: str) -> str:
        self._check()
        return spill_output(self._host.directory, f"log_{run}", text)[0]

    async def reproduce(self, reproduction: Reproduction) -> ReproductionReport:
        self._check()
        if not self._state.hypotheses:
            raise ToolFailed("There are no hypotheses yet.", hint="Set three to five with hypotheses_set first.")
        return await self._runner.reproduce(reproduction)


def check_probe_syntax(path: str, before: str, after: str, line: int) -> None:
    """Raise `ToolInputInvalid` if a probe before `line` (1-indexed) breaks a text or would not run.

    `before`, `after`: the text without and with the probe."""
    if path.endswith(_PYTHON) and _find_python_flaw(before) is None:
        if (flaw := _find_python_flaw(after)) is not None:
            raise ToolInputInvalid(f"With this probe {path} does not parse: {flaw}.", hint=_HINT)
        if len(find_region_comments(after)) > _count_comment_marks(after):
            raise _build_not_run_error(path, "string")
        return
    flaws = find_new_flaws(path, before, after)
    if flaws:
        lines = split_lines(after).bodies
        text = lines[flaws[0].line - 1].strip() if flaws[0].line <= len(lines) else ""
        raise ToolInputInvalid(
            f"With this probe {path} does not parse: {describe_flaw(flaws[0])}: {text[:200]}", hint=_HINT
        )
    _check_not_hidden(path, after)
    _check_not_between(path, before, after, line)


def _check_not_hidden(path: str, after: str) -> None:
    """Raise if a mark is within a string, a comment or text, where the probe would not run."""
    for mark in find_region_comments(after):
        position = find_position(path, after, mark.line)
        if (
            position is not None
            and "ERROR" not in position.within
            and not any("comment" in kind for kind in position.begins)
        ):
            raise _build_not_run_error(
                path, position.within[0].replace("_", " ").removesuffix(" fragment").removesuffix(" content")
            )


def _check_not_between(path: str, before: str, after: str, line: int) -> None:
    """Raise if a probe splits a statement, or separates an `if` from its only statement."""
    line_numbers = [number for number, body in enumerate(before.split("\n"), start=1) if body.strip()]
    down = after.count("\n") - before.count("\n")
    above = [(number, number) for number in line_numbers if number < line][-1:]
    below = [(number, number + down) for number in line_numbers if number >= line][:1]
    for number, new_number in above + below:
        old_position, now = find_position(path, before, number), find_position(path, after, new_number)
        if old_position is not None and now is not None and old_position.within != now.within:
            node_kind = next(
                (kind for kind in old_position.within if old_position.within.count(kind) != now.within.count(kind)),
                "statement",
            )
            raise ToolInputInvalid(
                f"{path}: a probe before line {line} would split a statement ({node_kind.replace('_', ' ')}).",
                hint="No probe was added. Give the line where the whole statement starts.",
            )


def _build_not_run_error(path: str, kind: str) -> ToolInputInvalid:
    return ToolInputInvalid(f"{path}: a probe at that line would be inside a {kind} and never run.", hint=_HINT)


def _find_python_flaw(text: str) -> str | None:
    """Return Python's error for a text; None: it compiles, or the compiler can't decide."""
    error = find_compile_error(text)
    if error is None:
        return None
    source_line = (error.text or "").strip()
    return f"{error.msg} (line {error.lineno}{f': {source_line[:200]}' if source_line else ''})"


def _count_comment_marks(text: str) -> int:
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError, IndentationError):
        return len(find_region_comments(text))
    return sum(
        token.type == tokenize.COMMENT and has_regions(token.string.encode("utf-8", "replace")) for token in tokens
    )
