"""PROBE: what the tools of Debug mode work at. It writes no file that the user has or is asked about.

Probes are kept in the session's state and nowhere else. A run lays them over the shadow, in a box whose effects are
dropped; only its log is kept. So neither a verdict, nor a command, nor a crash can carry a probe into the project.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from core.agent.consent import guard_of
from core.agent.debug_fix import judge_fix, take_back
from core.agent.probe_check import take_out
from core.agent.probe_room import probed_file
from core.agent.probe_run import ProbeRunner
from core.agent.probe_syntax import refuse_broken
from core.agent.session import SessionContext
from core.agent.spill import put_aside
from core.debug.hypotheses import cited, judged, known
from core.debug.marks import anchored, check_code, lay
from core.debug.records import stored
from core.errors import ToolFailed, ToolInputInvalid
from core.modes import Access
from core.protocol.debug import Hypothesis, Judgement, Probe, ProbeRecord, ProbeRun
from core.protocol.events import HypothesesSet, HypothesisJudged, ProbeAdded, ProbeRemoved
from core.protocol.review import Origin
from core.sessions.debugging import DebugState
from core.tools.debugging import Removed, Reproduction, Shown

MOST_PROBES = 40


class DebugBench:
    """That of one call. `check_lease` raises when the call is over."""

    def __init__(self, session: SessionContext, origin: Origin, check_lease: Callable[[], None]) -> None:
        self._session = session
        self._origin = origin
        self._check = check_lease
        self._runner = ProbeRunner(session, origin, check_lease)

    @property
    def _state(self) -> DebugState:
        return self._session.state.debug

    def hypotheses(self) -> tuple[Hypothesis, ...]:
        return tuple(self._state.hypotheses.values())

    def probes(self) -> tuple[Probe, ...]:
        return tuple(self._state.probes.values())

    def runs(self) -> tuple[ProbeRun, ...]:
        return tuple(self._state.runs.values())

    def set_hypotheses(self, hypotheses: tuple[Hypothesis, ...]) -> tuple[str, ...]:
        self._check()
        taken_back = take_back(self._session, replace(self._origin, tool="hypotheses_set"))
        self._session.emit(HypothesesSet(hypotheses=hypotheses, taken_back=taken_back))
        return taken_back

    def judge(self, name: str, verdict: Judgement, evidence: tuple[str, ...], reason: str) -> Hypothesis:
        self._check()
        found = known(self.hypotheses(), name)
        wanted = {each.partition(":")[0].strip() for each in evidence}
        logs = {run: self.records(run) if run in wanted else () for run in self._state.runs}
        made = judged(found, verdict, cited(evidence, logs), reason)
        self._session.emit(HypothesisJudged(hypothesis=made))
        return made

    def records(self, run: str) -> tuple[ProbeRecord, ...]:
        known_run = self._state.runs.get(run)
        if known_run is None:
            names = ", ".join(self._state.runs) or "none yet"
            raise ToolInputInvalid(f"There is no run {run!r}.", hint=f"Runs: {names}.")
        return stored(self._session.shadow.blobs.get(known_run.log)) if known_run.log else ()

    def add_probe(self, path: str, line: int, code: str, hypothesis: str) -> Probe:
        self._check()
        session = self._session
        if not session.contained:
            raise ToolFailed(
                "Probes can't be placed here: nothing on this machine can hold the effects of a run with them.",
                hint="Reproduce without probes, and cite the output.",
            )
        known(self.hypotheses(), hypothesis)
        if len(self._state.probes) >= MOST_PROBES:
            raise ToolInputInvalid(f"{MOST_PROBES} probes are in place.", hint="Remove those that say nothing.")
        real = session.shadow.seen.canonical(session.workspace.relative(path))
        guard_of(session).check(Access.READ, real)
        check_code(real, code)
        text = probed_file(session.shadow, real).file.text
        name = f"p{self._state.probe_count + 1}"
        probe = anchored(text, Probe(id=name, path=real, line=line, code=code, hypothesis=hypothesis))
        refuse_broken(real, text, lay(text, [probe]).text, probe.line)
        session.emit(ProbeAdded(probe=probe))
        return probe

    async def remove_probes(self, names: tuple[str, ...]) -> Removed:
        self._check()
        present = self._state.probes
        unknown = [name for name in names if name not in present]
        if unknown:
            raise ToolInputInvalid(
                f"There is no probe {unknown[0]!r}.", hint=f"In place: {', '.join(present) or 'none'}."
            )
        gone = names or tuple(present)
        said = await judge_fix(self._session, self._origin) if set(gone) >= set(present) else None
        self._check()
        if said is not None and said.outcome == "broken":
            return Removed(said=f"{said.told} The probes are in place still.")
        gone = tuple(name for name in gone if name in self._state.probes)
        if gone:
            self._session.emit(ProbeRemoved(ids=gone))
        if not self._state.probes and (left := take_out(self._session.shadow, self._state.probed).left):
            raise ToolFailed(f"Marks of probes are left in {', '.join(left)}.", hint="Take them out by an edit.")
        return Removed(gone=gone, said=said.told if said else "")

    def keep(self, run: str, text: str) -> str:
        self._check()
        return put_aside(self._session.directory, f"log_{run}", text)[0]

    async def reproduce(self, wanted: Reproduction) -> Shown:
        self._check()
        if not self._state.hypotheses:
            raise ToolFailed("There are no hypotheses yet.", hint="Set three to five with hypotheses_set first.")
        return await self._runner.show(wanted)
