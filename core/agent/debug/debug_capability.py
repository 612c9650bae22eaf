"""The PROBE capability: hypotheses, probes and runs of Debug mode. It writes no file of the user's.

Probes are kept in the session's state and nowhere else. A run lays them over the shadow, in a box whose effects are
dropped; only its log is kept. So neither a verdict, nor a command, nor a crash can carry a probe into the project.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from core.agent.debug.fix_verdict import FixReview
from core.agent.debug.leftover_marks import remove_marks
from core.agent.debug.probe_run import ProbeRunner
from core.agent.debug.probe_syntax import check_probe_syntax
from core.agent.gate.approvals import Approver
from core.debug.hypotheses import find_hypothesis, record_verdict, resolve_evidence
from core.debug.probe_records import decode_records
from core.debug.probe_regions import anchor_probe, check_probe_code, insert_probes
from core.errors import ToolFailed, ToolInputInvalid
from core.modes import Access
from core.protocol.debug import CauseVerdict, Hypothesis, Probe, ProbeRecord, ProbeRun
from core.protocol.events import HypothesesSet, HypothesisJudged, ProbeAdded, ProbeRemoved
from core.protocol.review import Origin
from core.shell.probe_overlay import read_probed_file
from core.shell.spill import spill_output
from core.state.debugging import DebugState
from core.tools.builtin.debugging import RemovedProbes, Reproduction, ReproductionReport

MAX_PROBES = 40


class DebugCapability:
    """The PROBE capability of one call. `check_lease` raises when the call is over."""

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
                "Probes can't be placed here: nothing on this machine can hold the effects of a run with them.",
                hint="Reproduce without probes, and cite the output.",
            )
        find_hypothesis(self.hypotheses(), hypothesis)
        if len(self._state.probes) >= MAX_PROBES:
            raise ToolInputInvalid(f"{MAX_PROBES} probes are in place.", hint="Remove those that say nothing.")
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
                f"There is no probe {unknown[0]!r}.", hint=f"In place: {', '.join(present) or 'none'}."
            )
        probe_ids = names or tuple(present)
        verdict = await self._fix.ask_for_verdict(self._origin) if set(probe_ids) >= set(present) else None
        self._check()
        if verdict is not None and verdict.outcome == "broken":
            return RemovedProbes(verdict=f"{verdict.message} The probes are in place still.")
        probe_ids = tuple(name for name in probe_ids if name in self._state.probes)
        if probe_ids:
            self._host.emit(ProbeRemoved(ids=probe_ids))
        if not self._state.probes and (marked_paths := remove_marks(self._host.shadow, self._state.probed_paths).paths):
            raise ToolFailed(
                f"Marks of probes are left in {', '.join(marked_paths)}.", hint="Take them out by an edit."
            )
        return RemovedProbes(gone=probe_ids, verdict=verdict.message if verdict else "")

    def save_output(self, run: str, text: str) -> str:
        self._check()
        return spill_output(self._host.directory, f"log_{run}", text)[0]

    async def reproduce(self, reproduction: Reproduction) -> ReproductionReport:
        self._check()
        if not self._state.hypotheses:
            raise ToolFailed("There are no hypotheses yet.", hint="Set three to five with hypotheses_set first.")
        return await self._runner.reproduce(reproduction)
