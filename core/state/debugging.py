"""Debugging in the session's state: hypotheses, the probes in place, the runs that were recorded.

No probe outlives its turn or Debug mode: the end of either drops all of them here, whatever else was
recorded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from core.protocol import events as ev
from core.protocol.debug import Hypothesis, Probe, ProbeRun
from core.protocol.review import Change, FileState


@dataclass(slots=True)
class DebugState:
    """Debugging of a session: `hypotheses`, `probes` and `runs` by id, in order.

    `fixes`: files changed since a hypothesis was confirmed, with the state that was pending before (None:
    nothing); `is_fix_accepted`: one of them is in the project. `fix_run` is the latest run with the whole fix
    in it, `fix_verdict` the user's verdict on it. `probed_paths`: files that ever had a probe,
    `needs_probe_check`: one had since marks were looked for. `reproduction` waits for its end. The counts
    give new ids; `checkpoints` holds the hypotheses at each checkpoint.
    """

    hypotheses: dict[str, Hypothesis] = field(default_factory=dict)
    probes: dict[str, Probe] = field(default_factory=dict)
    runs: dict[str, ProbeRun] = field(default_factory=dict)
    fixes: dict[str, FileState | None] = field(default_factory=dict)
    is_fix_accepted: bool = False
    fix_run: str = ""
    fix_verdict: ev.FixJudged | None = None
    probed_paths: dict[str, None] = field(default_factory=dict)
    needs_probe_check: bool = False
    reproduction: ev.ReproduceRequested | None = None
    probe_count: int = 0
    run_count: int = 0
    checkpoints: dict[str, dict[str, Hypothesis]] = field(default_factory=dict)

    @property
    def has_confirmed_cause(self) -> bool:
        """True if a cause is confirmed, so that it may be fixed. A fix that did not help refutes it: new hypotheses
        are needed."""
        refuted = self.fix_verdict is not None and self.fix_verdict.outcome == "broken"
        return not refuted and any(each.state == "confirmed" for each in self.hypotheses.values())

    @property
    def has_fix(self) -> bool:
        """True if something was changed on evidence."""
        is_fixed = self.fix_verdict is not None and self.fix_verdict.outcome == "fixed"
        return bool(self.fixes) or self.is_fix_accepted or is_fixed

    @property
    def awaits_fix_verdict(self) -> bool:
        """True if a run has shown the fix and the user has given no verdict on it."""
        known = self.fix_verdict
        return bool(self.fix_run) and (known is None or (known.outcome == "unsure" and known.run != self.fix_run))

    def apply(self, event: ev.AnyEvent, mode: ev.ModeName, changes: Mapping[str, Change]) -> None:
        """Apply one event. `changes` are those that were pending before it."""
        match event:
            case ev.HypothesesSet(hypotheses=hypotheses):
                self.hypotheses = {each.id: each for each in hypotheses}
                self._reset_fix()
            case ev.HypothesisJudged(hypothesis=judged) if judged.id in self.hypotheses:
                self.hypotheses = {**self.hypotheses, judged.id: judged}
            case ev.ProbeAdded(probe=probe) if mode == "debug":
                self.probe_count += probe.id not in self.probes
                self.probes[probe.id] = probe
                self.probed_paths[probe.path] = None
                self.needs_probe_check = True
            case ev.ProbeRemoved(ids=ids):
                for each in ids:
                    self.probes.pop(each, None)
            case ev.ReproduceRequested():
                self.reproduction = event
                self.run_count += 1
            case ev.ReproduceEnded():
                self.reproduction = None
            case ev.RunRecorded(run=run):
                self.runs[run.id] = run
                self.fix_run = run.id if run.after_fix else self.fix_run
            case _:
                self._apply_other(event, mode, changes)

    def _apply_other(self, event: ev.AnyEvent, mode: ev.ModeName, changes: Mapping[str, Change]) -> None:
        match event:
            case ev.FixJudged():
                self.fix_verdict = event
                self.fixes = self.fixes if event.outcome == "unsure" else {}
            case ev.ProbesChecked():
                self.needs_probe_check = False
            case ev.TurnFinished():
                self._drop_probes()
            case ev.ModeChanged() if event.mode != "debug":
                self._drop_probes()
            case ev.ChangeProposed(change=change) | ev.ChangeRevised(change=change) if mode == "debug":
                self._record_fix(change, changes.get(change.path))
            case ev.FileWritten(path=path):
                self.is_fix_accepted |= path in self.fixes
                self.fixes.pop(path, None)
            case ev.CheckpointCreated(id=name):
                self.checkpoints[name] = self.hypotheses
            case ev.ConversationRewound(checkpoint=name):
                self._drop_probes()
                self.hypotheses = self.checkpoints.get(name, {})
                self._reset_fix()
            case _:
                pass

    def _reset_fix(self) -> None:
        self.fixes, self.is_fix_accepted, self.fix_run, self.fix_verdict = {}, False, "", None

    def _drop_probes(self) -> None:
        self.probes.clear()
        self.reproduction = None

    def _record_fix(self, change: Change, before: Change | None) -> None:
        """Record an edit of the agent's; not another event about the same edit, and not the user's own."""
        origin, known = change.origin, before.origin if before else None
        is_agents = origin is not None and bool(origin.turn and origin.call) and origin.tool != "you"
        if not self.has_confirmed_cause or not is_agents or (before is not None and before.pending == change.pending):
            return
        if before is None or known is None or known.strip_user_edit() != origin:
            self.fixes.setdefault(change.path, before.pending if before else None)
            self.fix_run, self.fix_verdict = "", None
