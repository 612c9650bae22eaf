"""The fold: the state of a session is made by its durable events, applied in order to an empty one.

Every prefix of a log folds to the state that the session had then. A new event that changes the state gets one row
here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from core.protocol import events as ev
from core.state import steps
from core.state.review import RESTORE_STEPS, REVIEW_STEPS
from core.state.session import SessionState

Step = Callable[[SessionState, ev.Envelope, Any], None]
Steps = Mapping[type[ev.Event], tuple[Step, ...]]
_LABELS: Final = (ev.SessionRenamed, ev.SessionTagged)  # Labelling a session does not count as using it.
_APPLY_REVIEW: Final[tuple[Step, ...]] = (lambda state, _, event: state.review.apply(event),)


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
    """Record an edit of the agent, but not another event about the same edit, nor the user's own edits."""
    debug, change, before = state.debug, event.change, state.review.changes.get(event.change.path)
    origin, previous_origin = change.origin, before.origin if before else None
    is_by_agent = origin is not None and bool(origin.turn and origin.call) and origin.tool != "you"
    if state.mode != "debug" or not debug.has_confirmed_cause or not is_by_agent:
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


# These steps have to see a change before the review applies it.
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


def apply_event(state: SessionState, envelope: ev.Envelope, table: Steps | None = None) -> bool:
    """Apply one event, and return whether it was new; lossy events and repeated ones change nothing. `table`: the steps
    to take, None = all of an engine."""
    event = envelope.event
    if isinstance(event, ev.LossyEvent) or envelope.seq <= state.seq:
        return False
    state.seq, state.session_id = envelope.seq, envelope.session
    if not isinstance(event, _LABELS):
        state.updated = envelope.at
    state.started = state.started or envelope.at
    for step in (SESSION_STEPS if table is None else table).get(type(event), ()):
        step(state, envelope, event)
    return True


def _assign(*names: str, **renames: str) -> Step:
    """Build a step that copies fields of the event, under their own name or as `field_of_the_state="name"`."""
    pairs = tuple({**{name: name for name in names}, **renames}.items())

    def assign(state: SessionState, _: ev.Envelope, event: object) -> None:
        for target, source in pairs:
            setattr(state, target, getattr(event, source))

    return assign


def _keep(name: str) -> Step:
    """Build a step that stores the event itself in a field of the state."""

    def keep(state: SessionState, _: ev.Envelope, event: object) -> None:
        setattr(state, name, event)

    return keep


def _put(name: str) -> Step:
    """Build a step that stores the event by its id in a dictionary of the state."""

    def put(state: SessionState, _: ev.Envelope, event: Any) -> None:
        getattr(state, name)[event.id] = event

    return put


def _drop(name: str) -> Step:
    """Build a step that removes the event's id from a dictionary of the state."""

    def drop(state: SessionState, _: ev.Envelope, event: Any) -> None:
        getattr(state, name).pop(event.id, None)

    return drop


def _drop_all(name: str) -> Step:
    """Build a step that removes the event's ids from a dictionary of the state."""

    def drop_all(state: SessionState, _: ev.Envelope, event: Any) -> None:
        for identifier in event.ids:
            getattr(state, name).pop(identifier, None)

    return drop_all


def _combine_steps(*tables: Steps) -> dict[type[ev.Event], tuple[Step, ...]]:
    """Merge tables: an event in several of them takes its steps in their order."""
    steps_by_event: dict[type[ev.Event], tuple[Step, ...]] = {}
    for table in tables:
        for event, added_steps in table.items():
            steps_by_event[event] = steps_by_event.get(event, ()) + added_steps
    return steps_by_event


# The steps of both an engine and a screen.
SHARED_STEPS: Final = _combine_steps(
    {
        ev.SessionStarted: (
            _assign("workspace", "mode", "model", "title", "branch", is_demo="demo", is_private="private"),
            _assign("accepts_at_once", is_unattended="unattended"),
        ),
        ev.SessionForked: (_assign(forked_from="source"),),
        ev.SessionTagged: (_assign("tags"),),
        ev.SessionResumed: (steps.resume,),
        ev.SessionRenamed: (_assign("title"),),
        ev.SessionClosed: (steps.close,),
        ev.ModeChanged: (_assign("mode", mode_after_turn="back_to"),),
        ev.BranchChanged: (_assign("branch"),),
        ev.ModelChanged: (steps.set_model,),
        ev.EffortChanged: (steps.set_effort,),
        ev.TierChanged: (steps.set_tier,),
        ev.RouteTaken: (steps.set_route,),
        ev.ModelUsed: (steps.add_model_usage,),
        ev.LimitsChanged: (_keep("limits"),),
        ev.PolicyChanged: (_keep("policy"),),
        ev.TrustStated: (_keep("trust"),),
        ev.AttachmentAdded: (steps.add_attachment,),
        ev.TurnStarted: (steps.start_turn,),
        ev.TurnSteered: (steps.add_steer,),
        ev.SteerDelivered: (_drop_all("pending_steers"),),
        ev.SteerReturned: (_drop("pending_steers"),),
        ev.DraftKept: (_assign(draft="text"),),
        ev.ReviewPolicyKept: (_assign(review_policy="policy"),),
        ev.TurnFinished: (steps.finish_turn,),
        ev.GoalSet: (steps.set_goal,),
        ev.GoalChecked: (steps.add_goal_check,),
        ev.GoalEnded: (steps.end_goal,),
        ev.LoopStarted: (steps.start_loop,),
        ev.LoopEnded: (steps.end_loop,),
        ev.StepStarted: (steps.start_step,),
        ev.StepFinished: (steps.finish_step,),
        ev.StepRetried: (steps.void_documents,),
        ev.MessageAppended: (steps.deliver_with_message,),
        ev.DocumentStarted: (steps.start_document,),
        ev.DocumentFinished: (steps.finish_document,),
        ev.ToolRequested: (steps.start_call,),
        ev.ToolFinished: (steps.finish_call,),
        ev.ApprovalRequested: (_put("approvals"),),
        ev.ApprovalResolved: (_drop("approvals"),),
        ev.QuestionAsked: (_put("questions"),),
        ev.QuestionAnswered: (steps.record_answer,),
        ev.AnswersReported: (_drop_all("unreported_answers"),),
        ev.ChangeProposed: (steps.record_merged_change,),
        ev.ChangeRevised: (steps.record_merged_change,),
        ev.PlanCreated: (steps.set_plan,),
        ev.PlanUpdated: (steps.set_plan,),
        ev.PlanWritten: (steps.drop_removed_plan,),
        ev.TodoChanged: (_assign("todos", todos_plan_path="plan"), steps.close_subagents),
        ev.TodoVerified: (_put("verifications"),),
        ev.ContextMeasured: (steps.set_context,),
        ev.ContextCompacted: (steps.measure_compacted,),
        ev.RulesLoaded: (_assign("rules"),),
        ev.SkillActivated: (steps.activate_skill,),
        ev.ForeignReceived: (steps.add_foreign_source,),
        ev.BoxFound: (_keep("box"),),
        ev.HookRan: (_put("hook_results"),),
        ev.ShellMoved: (_keep("shell"),),
        ev.JobStarted: (_put("jobs"), steps.count_job),
        ev.JobEnded: (_drop("jobs"),),
        ev.PortsChanged: (_assign("ports"),),
        ev.CheckpointCreated: (steps.add_checkpoint,),
        ev.CheckpointRestored: (steps.drop_merged_subagents,),
        ev.ConversationRewound: (steps.rewind_turns,),
        ev.AgentSessionOpened: (steps.open_agent_session,),
        ev.SubagentStarted: (steps.start_subagent,),
        ev.SubagentFinished: (steps.finish_subagent,),
        ev.SubagentRated: (steps.rate_subagent,),
        ev.SubagentMerging: (steps.begin_merge,),
        ev.SubagentMerged: (steps.finish_merge,),
    },
    DEBUG_STEPS,
    {ev.CheckRecorded: (steps.record_check,)},
    dict.fromkeys(REVIEW_STEPS, _APPLY_REVIEW),
)


# The steps of an engine alone: what the model was sent and knows, and what is needed to restore files.
SESSION_STEPS: Final = _combine_steps(
    SHARED_STEPS,
    {
        ev.MessageAppended: (steps.append_message,),
        ev.ContextCompacted: (steps.compact_history,),
        ev.ContextDropped: (steps.drop_spans,),
        ev.ReasoningDropped: (steps.drop_reasoning,),
        ev.VerdictGiven: (steps.add_verdict,),
        ev.VerdictUndone: (steps.undo_verdict,),
        ev.VerdictsReported: (
            steps.report_verdicts,
            _drop_all("undone_verdicts"),
            _drop_all("edited_hunks"),
            _drop_all("merged_user_edits"),
        ),
        ev.UserEditMerged: (_put("merged_user_edits"),),
        ev.HunkEdited: (_put("edited_hunks"),),
        ev.JobEnded: (_put("unreported_commands"),),
        ev.CommandRan: (_put("unreported_commands"), _keep("last_run")),
        ev.TerminalReported: (_drop_all("unreported_commands"),),
        ev.ConversationRewound: (steps.rewind_messages,),
    },
    dict.fromkeys(RESTORE_STEPS, _APPLY_REVIEW),
)
