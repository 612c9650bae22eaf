"""Debugging in the session's state: hypotheses, the probes in place, the runs that were recorded.

No probe outlives its turn or Debug mode: the end of either drops all of them here, whatever else was recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

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
        step = DEBUG_STEPS.get(type(event))
        if step is not None:
            step(self, event, mode, changes)

    def reset_fix(self) -> None:
        """Forget the fix and what is known of it."""
        self.fixes, self.is_fix_accepted, self.fix_run, self.fix_verdict = {}, False, "", None

    def drop_probes(self) -> None:
        """End debugging, with the turn or the mode."""
        self.probes, self.reproduction = {}, None


DebugStep = Callable[[DebugState, Any, ev.ModeName, Mapping[str, Change]], None]
_Changes = Mapping[str, Change]


def _set_hypotheses(debug: DebugState, event: ev.HypothesesSet, _: ev.ModeName, __: _Changes) -> None:
    debug.hypotheses = {each.id: each for each in event.hypotheses}
    debug.reset_fix()


def _set_verdict(debug: DebugState, event: ev.HypothesisJudged, _: ev.ModeName, __: _Changes) -> None:
    if event.hypothesis.id in debug.hypotheses:
        debug.hypotheses = {**debug.hypotheses, event.hypothesis.id: event.hypothesis}


def _add_probe(debug: DebugState, event: ev.ProbeAdded, mode: ev.ModeName, _: _Changes) -> None:
    if mode != "debug":
        return
    probe = event.probe
    debug.probe_count += probe.id not in debug.probes
    debug.probes = {**debug.probes, probe.id: probe}
    debug.probed_paths[probe.path] = None
    debug.needs_probe_check = True


def _remove_probes(debug: DebugState, event: ev.ProbeRemoved, _: ev.ModeName, __: _Changes) -> None:
    debug.probes = {name: probe for name, probe in debug.probes.items() if name not in event.ids}


def _begin_reproduction(debug: DebugState, event: ev.ReproduceRequested, _: ev.ModeName, __: _Changes) -> None:
    debug.reproduction = event
    debug.run_count += 1


def _end_reproduction(debug: DebugState, _: ev.ReproduceEnded, __: ev.ModeName, ___: _Changes) -> None:
    debug.reproduction = None


def _add_run(debug: DebugState, event: ev.RunRecorded, _: ev.ModeName, __: _Changes) -> None:
    debug.runs = {**debug.runs, event.run.id: event.run}
    debug.fix_run = event.run.id if event.run.after_fix else debug.fix_run


def _set_fix_verdict(debug: DebugState, event: ev.FixJudged, _: ev.ModeName, __: _Changes) -> None:
    debug.fix_verdict = event
    debug.fixes = debug.fixes if event.outcome == "unsure" else {}


def _end_probe_check(debug: DebugState, _: ev.ProbesChecked, __: ev.ModeName, ___: _Changes) -> None:
    debug.needs_probe_check = False


def _end_turn(debug: DebugState, _: ev.TurnFinished, __: ev.ModeName, ___: _Changes) -> None:
    debug.drop_probes()


def _change_mode(debug: DebugState, event: ev.ModeChanged, _: ev.ModeName, __: _Changes) -> None:
    if event.mode != "debug":
        debug.drop_probes()


def _record_fix(
    debug: DebugState, event: ev.ChangeProposed | ev.ChangeRevised, mode: ev.ModeName, changes: _Changes
) -> None:
    """Record an edit of the agent's; not another event about the same edit, and not the user's own."""
    change, before = event.change, changes.get(event.change.path)
    origin, known = change.origin, before.origin if before else None
    is_agents = origin is not None and bool(origin.turn and origin.call) and origin.tool != "you"
    if mode != "debug" or not debug.has_confirmed_cause or not is_agents:
        return
    if before is not None and before.pending == change.pending:
        return
    if before is None or known is None or known.strip_user_edit() != origin:
        debug.fixes.setdefault(change.path, before.pending if before else None)
        debug.fix_run, debug.fix_verdict = "", None


def _accept_fix(debug: DebugState, event: ev.FileWritten, _: ev.ModeName, __: _Changes) -> None:
    debug.is_fix_accepted |= event.path in debug.fixes
    debug.fixes.pop(event.path, None)


def _add_checkpoint(debug: DebugState, event: ev.CheckpointCreated, _: ev.ModeName, __: _Changes) -> None:
    debug.checkpoints[event.id] = debug.hypotheses


def _rewind(debug: DebugState, event: ev.ConversationRewound, _: ev.ModeName, __: _Changes) -> None:
    debug.drop_probes()
    debug.hypotheses = debug.checkpoints.get(event.checkpoint, {})
    debug.reset_fix()


DEBUG_STEPS: dict[type[ev.Event], DebugStep] = {
    ev.HypothesesSet: _set_hypotheses,
    ev.HypothesisJudged: _set_verdict,
    ev.ProbeAdded: _add_probe,
    ev.ProbeRemoved: _remove_probes,
    ev.ProbesChecked: _end_probe_check,
    ev.ReproduceRequested: _begin_reproduction,
    ev.ReproduceEnded: _end_reproduction,
    ev.RunRecorded: _add_run,
    ev.FixJudged: _set_fix_verdict,
    ev.TurnFinished: _end_turn,
    ev.ModeChanged: _change_mode,
    ev.ChangeProposed: _record_fix,
    ev.ChangeRevised: _record_fix,
    ev.FileWritten: _accept_fix,
    ev.CheckpointCreated: _add_checkpoint,
    ev.ConversationRewound: _rewind,
}
