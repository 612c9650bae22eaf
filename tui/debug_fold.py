"""The screen's fold of debugging: what is supposed, which probes are in place, what was logged, and what goes on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from core.protocol import events
from core.protocol.debug import ASKED_IF_FIXED, ASKED_TO_SHOW, Hypothesis, Probe, ProbeRecord, ProbeRun

if TYPE_CHECKING:
    from tui.state import ViewState

LIVE: Final = 500  # records of a run that goes on


@dataclass(slots=True)
class DebugView:
    """By id, in order. `live`: what the run that goes on has logged until now. `judged`: what was said of the fix;
    `checked`: the search for marks of probes, once they are gone. `asked`: the question that a card puts. `holds`:
    whether something on this machine holds what a run does, so that there can be probes."""

    hypotheses: dict[str, Hypothesis] = field(default_factory=dict)
    probes: dict[str, Probe] = field(default_factory=dict)
    runs: dict[str, ProbeRun] = field(default_factory=dict)
    reproducing: events.ReproduceRequested | None = None
    live: list[ProbeRecord] = field(default_factory=list)
    judged: events.FixJudged | None = None
    checked: events.ProbesChecked | None = None
    asked: events.QuestionAsked | None = None
    marks: dict[str, dict[str, Hypothesis]] = field(default_factory=dict)
    holds: bool = True


def fold_debug(state: ViewState, event: events.AnyEvent) -> bool:
    """Take in an event that is about debugging. Whether it was one, and nothing else."""
    view = state.debug
    match event:
        case events.HypothesesSet(hypotheses=hypotheses):
            view.hypotheses = {each.id: each for each in hypotheses}
            view.judged = None
        case events.HypothesisJudged(hypothesis=judged):
            view.hypotheses = {**view.hypotheses, judged.id: judged}
        case events.ProbeAdded(probe=probe):
            view.probes, view.checked = {**view.probes, probe.id: probe}, None
        case events.ProbeRemoved(ids=ids):
            view.probes = {name: probe for name, probe in view.probes.items() if name not in ids}
        case events.ReproduceRequested():
            view.reproducing, view.live = event, []
        case events.ProbeLogged(records=records) if view.reproducing is not None:
            view.live = [*view.live, *records][-LIVE:]
        case events.RunRecorded(run=run):
            view.runs = {**view.runs, run.id: run}
        case events.ReproduceEnded():
            view.reproducing, view.live = None, []
        case _:
            return _end(view, event)
    return True


def _end(view: DebugView, event: events.AnyEvent) -> bool:
    match event:
        case events.FixJudged():
            view.judged = event
        case events.ProbesChecked():
            view.checked = event
        case _:
            _around(view, event)
            return False
    return True


def _around(view: DebugView, event: events.AnyEvent) -> None:
    """What others fold, too. No probe outlives its turn or Debug mode."""
    match event:
        case events.QuestionAsked() if event.questions[0].id in {ASKED_TO_SHOW, ASKED_IF_FIXED}:
            view.asked = event
        case events.QuestionAnswered(id=name) if view.asked is not None and view.asked.id == name:
            view.asked = None
        case events.CheckpointCreated(id=name):
            view.marks[name] = view.hypotheses
        case events.ConversationRewound(checkpoint=name):
            view.hypotheses, view.judged, view.checked = view.marks.get(name, {}), None, None
            view.probes, view.reproducing, view.live, view.asked = {}, None, [], None
        case events.BoxFound(tier=tier):
            view.holds = tier != "T4"
        case _:
            _leave(view, event)


def _leave(view: DebugView, event: events.AnyEvent) -> None:
    left = isinstance(event, events.TurnFinished) or (isinstance(event, events.ModeChanged) and event.mode != "debug")
    if left and (view.probes or view.reproducing or view.asked):
        view.probes, view.reproducing, view.live, view.asked = {}, None, [], None
