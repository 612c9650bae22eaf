"""The screen's fold of debugging: what is supposed, which probes are in place, what was logged, and what goes on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from core.protocol import events
from core.protocol.debug import FIXED_QUESTION, REPRODUCE_QUESTION, Hypothesis, Probe, ProbeRecord, ProbeRun

if TYPE_CHECKING:
    from tui.state import ViewState

MAX_LIVE_RECORDS: Final = 500  # records of a run that goes on


@dataclass(slots=True)
class DebugView:
    """By id, in order. `live`: what the run that goes on has logged until now. `judged`: what was said of the fix;
    `checked`: the search for marks of probes, once they are gone. `asked`: the question that a card puts. `holds`:
    whether something on this machine holds what a run does, so that there can be probes."""

    hypotheses: dict[str, Hypothesis] = field(default_factory=dict)
    probes: dict[str, Probe] = field(default_factory=dict)
    runs: dict[str, ProbeRun] = field(default_factory=dict)
    reproduction: events.ReproduceRequested | None = None
    live_records: list[ProbeRecord] = field(default_factory=list)
    fix_verdict: events.FixJudged | None = None
    probe_check: events.ProbesChecked | None = None
    question: events.QuestionAsked | None = None
    checkpoints: dict[str, dict[str, Hypothesis]] = field(default_factory=dict)
    can_probe: bool = True


def fold_debug(state: ViewState, event: events.AnyEvent) -> bool:
    """Take in an event that is about debugging. Whether it was one, and nothing else."""
    view = state.debug
    match event:
        case events.HypothesesSet(hypotheses=hypotheses):
            view.hypotheses = {each.id: each for each in hypotheses}
            view.fix_verdict = None
        case events.HypothesisJudged(hypothesis=judged):
            view.hypotheses = {**view.hypotheses, judged.id: judged}
        case events.ProbeAdded(probe=probe):
            view.probes, view.probe_check = {**view.probes, probe.id: probe}, None
        case events.ProbeRemoved(ids=ids):
            view.probes = {name: probe for name, probe in view.probes.items() if name not in ids}
        case events.ReproduceRequested():
            view.reproduction, view.live_records = event, []
        case events.ProbeLogged(records=records) if view.reproduction is not None:
            view.live_records = [*view.live_records, *records][-MAX_LIVE_RECORDS:]
        case events.RunRecorded(run=run):
            view.runs = {**view.runs, run.id: run}
        case events.ReproduceEnded():
            view.reproduction, view.live_records = None, []
        case _:
            return _end(view, event)
    return True


def _end(view: DebugView, event: events.AnyEvent) -> bool:
    match event:
        case events.FixJudged():
            view.fix_verdict = event
        case events.ProbesChecked():
            view.probe_check = event
        case _:
            _around(view, event)
            return False
    return True


def _around(view: DebugView, event: events.AnyEvent) -> None:
    """What others fold, too. No probe outlives its turn or Debug mode."""
    match event:
        case events.QuestionAsked() if event.questions[0].id in {REPRODUCE_QUESTION, FIXED_QUESTION}:
            view.question = event
        case events.QuestionAnswered(id=name) if view.question is not None and view.question.id == name:
            view.question = None
        case events.CheckpointCreated(id=name):
            view.checkpoints[name] = view.hypotheses
        case events.ConversationRewound(checkpoint=name):
            view.hypotheses, view.fix_verdict, view.probe_check = view.checkpoints.get(name, {}), None, None
            view.probes, view.reproduction, view.live_records, view.question = {}, None, [], None
        case events.BoxFound(tier=tier):
            view.can_probe = tier != "T4"
        case _:
            _leave(view, event)


def _leave(view: DebugView, event: events.AnyEvent) -> None:
    left = isinstance(event, events.TurnFinished) or (isinstance(event, events.ModeChanged) and event.mode != "debug")
    if left and (view.probes or view.reproduction or view.question):
        view.probes, view.reproduction, view.live_records, view.question = {}, None, [], None
