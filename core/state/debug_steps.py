"""Steps of the fold that are about debugging: the table says which event takes which."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from core.protocol import events as ev
from core.state.session import SessionState

Step = Callable[[SessionState, ev.Envelope, Any], None]


def _set_hypotheses(state: SessionState, _: ev.Envelope, event: ev.HypothesesSet) -> None:
    state.debug.hypotheses = {hypothesis.id: hypothesis for hypothesis in event.hypotheses}
    state.debug.reset_fix()


def _set_verdict(state: SessionState, _: ev.Envelope, event: ev.HypothesisJudged) -> None:
    if event.hypothesis.id in state.debug.hypotheses:
        state.debug.hypotheses = {**state.debug.hypotheses, event.hypothesis.id: event.hypothesis}


def _add_probe(state: SessionState, _: ev.Envelope, event: ev.ProbeAdded) -> None:
    if state.mode != "debug":
        return
    debug, probe = state.debug, event.probe
    debug.probe_count += probe.id not in debug.probes
    debug.probes = {**debug.probes, probe.id: probe}
    debug.probed_paths[probe.path] = None
    debug.needs_probe_check = True


def _remove_probes(state: SessionState, _: ev.Envelope, event: ev.ProbeRemoved) -> None:
    state.debug.probes = {name: probe for name, probe in state.debug.probes.items() if name not in event.ids}


def _begin_reproduction(state: SessionState, _: ev.Envelope, event: ev.ReproduceRequested) -> None:
    state.debug.reproduction = event
    state.debug.run_count += 1


def _end_reproduction(state: SessionState, _: ev.Envelope, __: ev.ReproduceEnded) -> None:
    state.debug.reproduction = None


def _add_run(state: SessionState, _: ev.Envelope, event: ev.RunRecorded) -> None:
    debug, run = state.debug, event.run
    debug.runs = {**debug.runs, run.id: run}
    debug.fix_run = run.id if run.after_fix else debug.fix_run


def _set_fix_verdict(state: SessionState, _: ev.Envelope, event: ev.FixJudged) -> None:
    state.debug.fix_verdict = event
    if event.outcome != "unsure":
        state.debug.fixes = {}


def _end_probe_check(state: SessionState, _: ev.Envelope, __: ev.ProbesChecked) -> None:
    state.debug.needs_probe_check = False


def _change_mode(state: SessionState, _: ev.Envelope, event: ev.ModeChanged) -> None:
    if event.mode != "debug":
        state.debug.drop_probes()


def _record_fix(state: SessionState, _: ev.Envelope, event: ev.ChangeProposed | ev.ChangeRevised) -> None:
    """Record an edit of the agent's; not another event about the same edit, and not the user's own."""
    debug, change, before = state.debug, event.change, state.review.changes.get(event.change.path)
    origin, previous_origin = change.origin, before.origin if before else None
    is_agents = origin is not None and bool(origin.turn and origin.call) and origin.tool != "you"
    if state.mode != "debug" or not debug.has_confirmed_cause or not is_agents:
        return
    if before is not None and before.pending == change.pending:
        return
    if before is None or previous_origin is None or previous_origin.strip_user_edit() != origin:
        debug.fixes.setdefault(change.path, before.pending if before else None)
        debug.fix_run, debug.fix_verdict = "", None


def _accept_fix(state: SessionState, _: ev.Envelope, event: ev.FileWritten) -> None:
    state.debug.is_fix_accepted |= event.path in state.debug.fixes
    state.debug.fixes.pop(event.path, None)


def _rewind(state: SessionState, _: ev.Envelope, event: ev.ConversationRewound) -> None:
    state.debug.drop_probes()
    state.debug.hypotheses = state.debug.checkpoints.get(event.checkpoint, {})
    state.debug.reset_fix()


# A change is looked at before the review takes it in.
DEBUG_STEPS: Final[dict[type[ev.Event], tuple[Step, ...]]] = {
    ev.HypothesesSet: (_set_hypotheses,),
    ev.HypothesisJudged: (_set_verdict,),
    ev.ProbeAdded: (_add_probe,),
    ev.ProbeRemoved: (_remove_probes,),
    ev.ProbesChecked: (_end_probe_check,),
    ev.ReproduceRequested: (_begin_reproduction,),
    ev.ReproduceEnded: (_end_reproduction,),
    ev.RunRecorded: (_add_run,),
    ev.FixJudged: (_set_fix_verdict,),
    ev.ModeChanged: (_change_mode,),
    ev.ChangeProposed: (_record_fix,),
    ev.ChangeRevised: (_record_fix,),
    ev.FileWritten: (_accept_fix,),
    ev.ConversationRewound: (_rewind,),
}
