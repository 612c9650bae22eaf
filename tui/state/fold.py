"""The screen's fold: the session's state by the same table as the engine's, and what is shown of each event.

Live or replayed, the same events give the same state, because lossy events leave nothing behind once the durable event
that completes them has come. An event that the screen shows gets one row here: its topics, and a step if more than the
state changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from core.protocol import events
from core.protocol.debug import FIXED_QUESTION, REPRODUCE_QUESTION
from core.state.fold import SHARED_STEPS, apply_event
from tui.state.view import MAX_LIVE_RECORDS, PendingRetry, QuestionPlace, Topic, Topics, ViewState

_NOTHING: Final[Topics] = frozenset()
RETRY_REASONS: Final = {
    "rate_limited": "rate limit",
    "overloaded": "overloaded",
    "model_loading": "model is loading",
    "unreachable": "not reachable",
    "stalled": "silent",
    "stream_cut": "cut off",
    "server_failed": "server failed",
}


# A step sees the state before the event. It answers with topics if they are not those of its row.
Show = Callable[[ViewState, events.Envelope, Any], Topics | None]


def show_event(view: ViewState, envelope: events.Envelope) -> Topics:
    """Apply one event and return the topics it touched. An envelope that was seen already changes nothing."""
    event = envelope.event
    is_durable = not isinstance(event, events.LossyEvent)
    if is_durable and envelope.seq <= view.seq:
        return _NOTHING
    topics, show = _SHOWN.get(type(event), (_NOTHING, None))
    found = show(view, envelope, event) if show is not None else None
    if is_durable:
        apply_event(view, envelope, SHARED_STEPS)
    return topics if found is None else found


def _topics(*names: Topic) -> Topics:
    return frozenset(names)


def _start_turn(view: ViewState, envelope: events.Envelope, event: events.TurnStarted) -> None:
    view.suggestion = None
    view.turn_numbers.setdefault(envelope.turn, len(view.turn_numbers) + 1)
    view.steering.returned.clear()
    view.transcript.add_prompt("prompt", envelope, event.prompt)
    if event.model not in {"", view.shown_model}:
        view.model_choices.route = events.RouteTaken(model=event.model)  # a log without routes names it here alone


def _finish_step(view: ViewState, _: events.Envelope, event: events.StepFinished) -> None:
    view.retry = None
    view.context_used = event.context_tokens or view.context_used


def _retry_step(view: ViewState, envelope: events.Envelope, event: events.StepRetried) -> None:
    view.transcript.retry_step(event, envelope)
    view.retry = PendingRetry(event.delay_ms, envelope.seq, RETRY_REASONS.get(event.code, "failed"))


def _finish_turn(view: ViewState, envelope: events.Envelope, event: events.TurnFinished) -> None:
    view.retry = None
    view.transcript.finish_turn(event, envelope)
    view.debug.end()


def _suggest(view: ViewState, _: events.Envelope, event: events.PromptSuggested) -> None:
    view.suggestion = event


def _add_steer(view: ViewState, envelope: events.Envelope, event: events.TurnSteered) -> Topics | None:
    if not event.id:  # of an older program, which did not say what became of it
        view.transcript.add_prompt("steer", envelope, event.text)
        return _topics("queue", "blocks")
    view.steering.seqs[event.id] = envelope.seq
    view.steering.returned.clear()
    return None


def _deliver_steers(view: ViewState, envelope: events.Envelope, event: events.SteerDelivered) -> Topics | None:
    for text in [view.pending_steers[each] for each in event.ids if each in view.pending_steers]:
        view.transcript.add_prompt("steer", envelope, text)
    return None if event.ids else _NOTHING


def _append_message(view: ViewState, envelope: events.Envelope, event: events.MessageAppended) -> Topics | None:
    for text in [view.pending_steers[each] for each in event.steers if each in view.pending_steers]:
        view.transcript.add_prompt("steer", envelope, text)
    is_shown = view.transcript.show_attachments(event.message)
    return None if event.steers or is_shown else _NOTHING


def _return_steer(view: ViewState, envelope: events.Envelope, event: events.SteerReturned) -> None:
    view.steering.returned.append((event.text, envelope.seq))


def _add_label(view: ViewState, _: events.Envelope, event: events.AttachmentAdded) -> None:
    view.steering.labels[event.request] = event.label


def _start_document(view: ViewState, envelope: events.Envelope, event: events.DocumentStarted) -> None:
    view.retry = None
    view.transcript.start_document(event, envelope.turn)


def _add_delta(view: ViewState, _: events.Envelope, event: events.DocumentDelta) -> Topics | None:
    return None if view.transcript.add_delta(event) else _NOTHING


def _finish_document(view: ViewState, envelope: events.Envelope, event: events.DocumentFinished) -> None:
    view.transcript.finish_document(event.document, envelope.turn)


def _start_call(view: ViewState, _: events.Envelope, event: events.ToolRequested) -> None:
    view.transcript.start_call(event)


def _add_output(view: ViewState, _: events.Envelope, event: events.ToolOutput) -> None:
    view.transcript.add_output(event)


def _finish_call(view: ViewState, _: events.Envelope, event: events.ToolFinished) -> None:
    view.transcript.finish_call(event)


def _touch_change(view: ViewState, _: events.Envelope, event: events.ChangeProposed | events.ChangeRevised) -> None:
    view.touched_paths.add(event.change.path)


def _touch_path(view: ViewState, _: events.Envelope, event: events.ChangeResolved | events.FileWritten) -> None:
    view.touched_paths.add(event.path)


def _touch_paths(view: ViewState, _: events.Envelope, event: events.FilesChanged) -> None:
    view.touched_paths.update(event.paths)


def _ask(view: ViewState, envelope: events.Envelope, event: events.QuestionAsked) -> None:
    view.question_places[event.id] = QuestionPlace(envelope.turn, view.transcript.calls.get(event.call, ""))
    if event.questions[0].id in {REPRODUCE_QUESTION, FIXED_QUESTION}:
        view.debug.question = event


def _answer(view: ViewState, _: events.Envelope, event: events.QuestionAnswered) -> None:
    if event.id in view.questions:
        view.transcript.show_answers(view.place_of(event.id).block, event.answers, "")
    if view.debug.question is not None and view.debug.question.id == event.id:
        view.debug.question = None


def _mark_checkpoint(view: ViewState, _: events.Envelope, event: events.CheckpointCreated) -> None:
    view.transcript.mark_checkpoint(event.id)


def _rewind(view: ViewState, _: events.Envelope, event: events.ConversationRewound) -> Topics | None:
    view.debug.end()
    view.debug.probe_check = None
    if event.checkpoint not in view.transcript.checkpoints:
        return _NOTHING
    view.transcript.rewind(event.checkpoint)
    view.suggestion = None
    for each in view.checkpoints[event.checkpoint].questions:
        view.transcript.show_answers(view.place_of(each.id).block, (), "cancelled")
    return None


def _add_live_records(view: ViewState, _: events.Envelope, event: events.ProbeLogged) -> Topics | None:
    if view.debug.reproduction is None:
        return _NOTHING
    view.debug.live_records = [*view.debug.live_records, *event.records][-MAX_LIVE_RECORDS:]
    return None


def _restart_records(view: ViewState, _: events.Envelope, __: events.Event) -> None:
    view.debug.live_records = []


def _add_probe(view: ViewState, _: events.Envelope, __: events.ProbeAdded) -> None:
    view.debug.probe_check = None


def _set_probe_check(view: ViewState, _: events.Envelope, event: events.ProbesChecked) -> None:
    view.debug.probe_check = event


def _change_mode(view: ViewState, _: events.Envelope, event: events.ModeChanged) -> None:
    if event.mode != "debug":
        view.debug.end()


def _set_box(view: ViewState, _: events.Envelope, event: events.BoxFound) -> None:
    view.debug.can_probe = event.tier != "T4"


def _end_job(view: ViewState, envelope: events.Envelope, event: events.JobEnded) -> None:
    end = f"exit code {event.exit_code}" if event.exit_code is not None else event.ended.replace("_", " ")
    view.transcript.add_notice(envelope, f"{event.id} has ended: {event.command}", hint=f"{end}; {event.effects}")


def _set_model(view: ViewState, _: events.Envelope, event: events.ModelChanged) -> None:
    if not event.mode:
        view.model_choices.route = None  # until it is known who answers, it is the one that was chosen


def _set_plan(view: ViewState, _: events.Envelope, event: events.PlanCreated | events.PlanUpdated) -> Topics | None:
    return _topics("plan", "blocks") if view.transcript.mark_todos(event.plan.path, event.plan.todos) else None


def _set_todos(view: ViewState, _: events.Envelope, event: events.TodoChanged) -> Topics | None:
    return _topics("plan", "blocks") if view.transcript.mark_todos(event.plan, event.todos) else None


def _start_subagent(view: ViewState, envelope: events.Envelope, event: events.SubagentStarted) -> None:
    view.transcript.start_subagent(event, envelope)


def _show_progress(view: ViewState, _: events.Envelope, event: events.SubagentProgressed) -> Topics | None:
    if (block := view.transcript.subagents.get(event.id)) is None:
        return _NOTHING
    return None if view.transcript.show_progress(block, event) else _topics("blocks")


def _finish_subagent(view: ViewState, _: events.Envelope, event: events.SubagentFinished) -> Topics | None:
    if (block := view.transcript.subagents.get(event.id)) is None:
        return _NOTHING
    view.transcript.finish_subagent(block, event)
    return None


def _show_merge(view: ViewState, _: events.Envelope, event: events.SubagentMerged) -> Topics | None:
    if (block := view.transcript.subagents.get(event.id)) is None:
        return _NOTHING
    view.transcript.show_merge(block, event)
    return None


def _show_repair(view: ViewState, envelope: events.Envelope, event: events.SessionResumed) -> Topics | None:
    if not event.repaired:
        return _NOTHING
    view.transcript.add_notice(envelope, event.repaired)
    return None


def _show_restore(view: ViewState, envelope: events.Envelope, event: events.CheckpointRestored) -> None:
    view.transcript.add_notice(envelope, _describe_restore(len(event.files)), hint="/rewind takes that back")


def _describe_restore(count: int) -> str:
    if not count:
        return "The files were as they had been: nothing was taken back."
    return (
        f"{count} file{' was' if count == 1 else 's were'} taken back to how {'it' if count == 1 else 'they'} had been."
    )


def _show_notice(view: ViewState, envelope: events.Envelope, event: events.Notice) -> None:
    view.transcript.add_notice(envelope, event.message, hint=event.hint, level=event.level)


def _show_rules(view: ViewState, envelope: events.Envelope, event: events.RulesLoaded) -> Topics | None:
    notes = [f"{rule.path}: {rule.note}" for rule in event.rules if rule.note]
    fresh = [each for each in notes if each not in view.transcript.noted]
    if not fresh:
        return _NOTHING
    view.transcript.noted.update(fresh)
    view.transcript.add_notice(envelope, "\n".join(fresh), level="warning")
    return None


def _show_error(view: ViewState, envelope: events.Envelope, event: events.ErrorRaised) -> Topics | None:
    if view.transcript.has_shown(event.message):
        return _NOTHING
    view.transcript.add_error(envelope, event)
    if not event.path:
        return None
    view.refusals[event.path] = f"{event.message} {event.hint}".strip()
    return _topics("blocks", "status", "review")


def _show_compaction(view: ViewState, envelope: events.Envelope, event: events.ContextCompacted) -> None:
    text = f"history compacted: {event.before_tokens:,} to {event.after_tokens:,} tokens"
    view.transcript.add_notice(envelope, text)


_BLOCKS, _STATUS, _QUEUE, _DEBUG = _topics("blocks"), _topics("status"), _topics("queue"), _topics("debug")
_CALL = _SAID = _BLOCKS | _STATUS
_STEP = _BLOCKS | _STATUS | _QUEUE
_REVIEW = _topics("review", "status", "files")
_FILES = _topics("files")
_ASK = _topics("ask", "status", "blocks", "debug")
_SESSION = _topics("session", "status", "debug")
_MODEL = _topics("session", "status")
_PLAN = _topics("plan")
_SUBAGENT = _topics("blocks", "status", "plan")

_SHOWN: Final[Mapping[type[events.Event], tuple[Topics, Show | None]]] = {
    events.SessionStarted: (_SESSION, None),
    events.SessionRenamed: (_SESSION, None),
    events.SessionResumed: (_SAID, _show_repair),
    events.ModeChanged: (_SESSION, _change_mode),
    events.ModelChanged: (_MODEL, _set_model),
    events.EffortChanged: (_MODEL, None),
    events.RouteTaken: (_MODEL, None),
    events.ModelUsed: (_MODEL, None),
    events.LimitsChanged: (_STATUS, None),
    events.PolicyChanged: (_STATUS, None),
    events.TrustStated: (_ASK, None),
    events.AttachmentAdded: (_QUEUE, _add_label),
    events.TurnStarted: (_STEP, _start_turn),
    events.TurnSteered: (_QUEUE, _add_steer),
    events.SteerDelivered: (_QUEUE | _BLOCKS, _deliver_steers),
    events.SteerReturned: (_QUEUE, _return_steer),
    events.DraftKept: (_QUEUE, None),
    events.PromptSuggested: (_topics("session"), _suggest),
    events.TurnFinished: (_ASK, _finish_turn),
    events.StepStarted: (_STEP, None),
    events.StepFinished: (_STATUS, _finish_step),
    events.StepRetried: (_STEP, _retry_step),
    events.MessageAppended: (_QUEUE | _BLOCKS, _append_message),
    events.DocumentStarted: (_BLOCKS, _start_document),
    events.DocumentDelta: (_BLOCKS, _add_delta),
    events.DocumentFinished: (_BLOCKS, _finish_document),
    events.ToolRequested: (_CALL, _start_call),
    events.ToolOutput: (_BLOCKS, _add_output),
    events.ToolFinished: (_CALL, _finish_call),
    events.ApprovalRequested: (_ASK, None),
    events.ApprovalResolved: (_ASK, None),
    events.QuestionAsked: (_ASK, _ask),
    events.QuestionAnswered: (_ASK, _answer),
    events.AnswersReported: (_ASK, None),
    events.ChangeProposed: (_REVIEW, _touch_change),
    events.ChangeRevised: (_REVIEW, _touch_change),
    events.ChangeResolved: (_REVIEW, _touch_path),
    events.ChangeConflicted: (_REVIEW, None),
    events.VerdictGiven: (_REVIEW, None),
    events.VerdictUndone: (_REVIEW, None),
    events.LayersChanged: (_REVIEW, None),
    events.CheckRecorded: (_REVIEW, None),
    events.HunkCommented: (_REVIEW, None),
    events.PlanCommented: (_REVIEW, None),
    events.CommentsSent: (_REVIEW, None),
    events.FileWritten: (_FILES, _touch_path),
    events.FilesChanged: (_FILES, _touch_paths),
    events.CheckpointCreated: (_NOTHING, _mark_checkpoint),
    events.CheckpointRestored: (_SAID, _show_restore),
    events.ConversationRewound: (_ASK | _MODEL, _rewind),
    events.BoxFound: (_STATUS, _set_box),
    events.JobStarted: (_STATUS, None),
    events.JobEnded: (_SAID, _end_job),
    events.PlanCreated: (_PLAN, _set_plan),
    events.PlanUpdated: (_PLAN, _set_plan),
    events.TodoChanged: (_PLAN, _set_todos),
    events.TodoVerified: (_PLAN, None),
    events.HypothesesSet: (_DEBUG, None),
    events.HypothesisJudged: (_DEBUG, None),
    events.FixJudged: (_DEBUG, None),
    events.ProbeAdded: (_DEBUG, _add_probe),
    events.ProbeRemoved: (_DEBUG, None),
    events.ProbesChecked: (_DEBUG, _set_probe_check),
    events.ProbeLogged: (_DEBUG, _add_live_records),
    events.ReproduceRequested: (_DEBUG, _restart_records),
    events.ReproduceEnded: (_DEBUG, _restart_records),
    events.RunRecorded: (_DEBUG, None),
    events.SubagentStarted: (_SUBAGENT, _start_subagent),
    events.SubagentProgressed: (_topics("blocks", "plan"), _show_progress),
    events.SubagentFinished: (_SUBAGENT, _finish_subagent),
    events.SubagentMerged: (_SUBAGENT, _show_merge),
    events.ContextMeasured: (_STATUS, None),
    events.ContextCompacted: (_SAID, _show_compaction),
    events.RulesLoaded: (_SAID, _show_rules),
    events.Notice: (_SAID, _show_notice),
    events.ErrorRaised: (_SAID, _show_error),
}
