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
    what was pending there before (None: nothing); `accepted`: one of them is in the project. `shown_by` is the latest
    run that has the whole fix in it, `judged` what the user said of it. `probed`: files that ever had a probe,
    `unchecked`: one had since marks were looked for. `reproducing` waits for its end. The counts give new ids."""

    hypotheses: dict[str, Hypothesis] = field(default_factory=dict)
    probes: dict[str, Probe] = field(default_factory=dict)
    runs: dict[str, ProbeRun] = field(default_factory=dict)
    fixes: dict[str, FileState | None] = field(default_factory=dict)
    accepted: bool = False
    shown_by: str = ""
    judged: ev.FixJudged | None = None
    probed: dict[str, None] = field(default_factory=dict)
    unchecked: bool = False
    reproducing: ev.ReproduceRequested | None = None
    probe_count: int = 0
    run_count: int = 0
    marks: dict[str, dict[str, Hypothesis]] = field(default_factory=dict)

    @property
    def is_confirmed(self) -> bool:
        """Whether something is known to be the cause, so that it may be mended. A fix that did not help is no proof of
        anything: then there have to be new hypotheses."""
        refuted = self.judged is not None and self.judged.outcome == "broken"
        return not refuted and any(each.state == "confirmed" for each in self.hypotheses.values())

    @property
    def is_mended(self) -> bool:
        """Whether something was changed on evidence."""
        is_fixed = self.judged is not None and self.judged.outcome == "fixed"
        return bool(self.fixes) or self.accepted or is_fixed

    @property
    def awaits_judgement(self) -> bool:
        """Whether a run has shown the fix and nobody has said yet whether the fault is gone."""
        known = self.judged
        return bool(self.shown_by) and (known is None or (known.outcome == "unsure" and known.run != self.shown_by))

    def apply(self, event: ev.AnyEvent, mode: ev.ModeName, changes: Mapping[str, Change]) -> None:
        """Take one event in. `changes` are those that were pending before it."""
        match event:
            case ev.HypothesesSet(hypotheses=hypotheses):
                self.hypotheses = {each.id: each for each in hypotheses}
                self._begin_anew()
            case ev.HypothesisJudged(hypothesis=judged) if judged.id in self.hypotheses:
                self.hypotheses = {**self.hypotheses, judged.id: judged}
            case ev.ProbeAdded(probe=probe) if mode == "debug":
                self.probe_count += probe.id not in self.probes
                self.probes[probe.id] = probe
                self.probed[probe.path] = None
                self.unchecked = True
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
                self.shown_by = run.id if run.after_fix else self.shown_by
            case _:
                self._around(event, mode, changes)

    def _around(self, event: ev.AnyEvent, mode: ev.ModeName, changes: Mapping[str, Change]) -> None:
        match event:
            case ev.FixJudged():
                self.judged = event
                self.fixes = self.fixes if event.outcome == "unsure" else {}
            case ev.ProbesChecked():
                self.unchecked = False
            case ev.TurnFinished():
                self._leave()
            case ev.ModeChanged() if event.mode != "debug":
                self._leave()
            case ev.ChangeProposed(change=change) | ev.ChangeRevised(change=change) if mode == "debug":
                self._changed(change, changes.get(change.path))
            case ev.FileWritten(path=path):
                self.accepted |= path in self.fixes
                self.fixes.pop(path, None)
            case ev.CheckpointCreated(id=name):
                self.marks[name] = self.hypotheses
            case ev.ConversationRewound(checkpoint=name):
                self._leave()
                self.hypotheses = self.marks.get(name, {})
                self._begin_anew()
            case _:
                pass

    def _begin_anew(self) -> None:
        self.fixes, self.accepted, self.shown_by, self.judged = {}, False, "", None

    def _leave(self) -> None:
        self.probes.clear()
        self.reproducing = None

    def _changed(self, change: Change, before: Change | None) -> None:
        """An edit of the agent's, and not another look at the same one, or the user's own."""
        origin, known = change.origin, before.origin if before else None
        is_agents = origin is not None and bool(origin.turn and origin.call) and origin.tool != "you"
        if not self.is_confirmed or not is_agents or (before is not None and before.pending == change.pending):
            return
        if before is None or known is None or known.unedited() != origin:
            self.fixes.setdefault(change.path, before.pending if before else None)
            self.shown_by, self.judged = "", None
