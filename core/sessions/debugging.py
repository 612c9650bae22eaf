"""The part of the fold that debugging is: what is supposed, which probes are in place, which runs there were.

No probe outlives its turn or Debug mode: the end of either takes all of them away here, whatever else was written down.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from core.protocol import events as ev
from core.protocol.debug import Hypothesis, Probe, ProbeRun
from core.protocol.review import Change, FileState


@dataclass(slots=True)
class DebugState:
    """`hypotheses`, `probes` and `runs` by id, in order. `fixes`: files changed since a hypothesis was confirmed, with
    what was pending there before (None: nothing). `probed`: files that ever had a probe. `reproducing` waits for its
    end. The counts give new ids."""

    hypotheses: dict[str, Hypothesis] = field(default_factory=dict)
    probes: dict[str, Probe] = field(default_factory=dict)
    runs: dict[str, ProbeRun] = field(default_factory=dict)
    fixes: dict[str, FileState | None] = field(default_factory=dict)
    probed: dict[str, None] = field(default_factory=dict)
    reproducing: ev.ReproduceRequested | None = None
    probe_count: int = 0
    run_count: int = 0
    marks: dict[str, dict[str, Hypothesis]] = field(default_factory=dict)

    @property
    def is_confirmed(self) -> bool:
        """Whether something is known to be the cause, so that it may be mended."""
        return any(each.state == "confirmed" for each in self.hypotheses.values())

    def apply(self, event: ev.AnyEvent, mode: ev.ModeName, changes: Mapping[str, Change]) -> None:
        """Take one event in. `changes` are those that were pending before it."""
        match event:
            case ev.HypothesesSet(hypotheses=hypotheses):
                self.hypotheses = {each.id: each for each in hypotheses}
                self.fixes = {}
            case ev.HypothesisJudged(hypothesis=judged) if judged.id in self.hypotheses:
                self.hypotheses = {**self.hypotheses, judged.id: judged}
            case ev.ProbeAdded(probe=probe) if mode == "debug":
                self.probe_count += probe.id not in self.probes
                self.probes[probe.id] = probe
                self.probed[probe.path] = None
            case ev.ProbeRemoved(ids=ids):
                for each in ids:
                    self.probes.pop(each, None)
            case ev.ReproduceRequested():
                self.reproducing = event
                self.run_count += 1
            case ev.ReproduceEnded():
                self.reproducing = None
            case ev.RunRecorded(run=run):
                self.runs[run.id] = run
            case _:
                self._around(event, mode, changes)

    def _around(self, event: ev.AnyEvent, mode: ev.ModeName, changes: Mapping[str, Change]) -> None:
        match event:
            case ev.TurnFinished():
                self._leave()
            case ev.ModeChanged() if event.mode != "debug":
                self._leave()
            case ev.ChangeProposed(change=change) | ev.ChangeRevised(change=change) if mode == "debug":
                self._changed(change, changes.get(change.path))
            case ev.FileWritten(path=path):
                self.fixes.pop(path, None)
            case ev.CheckpointCreated(id=name):
                self.marks[name] = self.hypotheses
            case ev.ConversationRewound(checkpoint=name):
                self._leave()
                self.hypotheses, self.fixes = self.marks.get(name, {}), {}
            case _:
                pass

    def _leave(self) -> None:
        self.probes.clear()
        self.reproducing = None

    def _changed(self, change: Change, before: Change | None) -> None:
        """An edit of the agent's, and not another look at the same one, or the user's own."""
        origin, known = change.origin, before.origin if before else None
        is_agents = origin is not None and bool(origin.turn and origin.call) and origin.tool != "you"
        if not self.is_confirmed or not is_agents or (before is not None and before.pending == change.pending):
            return
        if before is None or known != origin:
            self.fixes.setdefault(change.path, before.pending if before else None)
