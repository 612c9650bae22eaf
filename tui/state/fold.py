"""The screen's fold: the session's state by the engine's table, and the topics of every event.

Live and replayed events produce the same state, because a durable event replaces its lossy ones. An event that the
screen displays has its topics here, and a step if it changes more than the session's state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from core.protocol import events
from core.protocol.debug import FIXED_QUESTION, REPRODUCE_QUESTION
from core.state.asides import AsideState
from core.state.fold import SHARED_STEPS, apply_event
from core.state.goals import format_check, format_end
from core.state.loops import format_loop
from core.text.counting import count
from tui.background_commands import describe_end
from tui.state.transcript import NOTHING, Topic, Topics, TranscriptState
from tui.state.view import MAX_LIVE_RECORDS, ModelWait, PendingRetry, QuestionLocation, Resumption, ViewState

RETRY_REASONS: Final = {
    "rate_limited": "rate limit",
    "overloaded": "overloaded",
    "model_loading": "model is loading",
    "unreachable": "not reachable",
    "stalled": "silent",
    "stream_cut": "cut off",
    "server_failed": "server failed",
}


MAX_PROMPT_CHARS: Final = 400  # of a prompt, to name its changes


# A step sees the state before the event. It answers with topics if they are not those of its row.
Step = Callable[[ViewState, events.Envelope, Any], Topics | None]


def show_event(view: ViewState, envelope: events.Envelope) -> Topics:
    """Apply one event and return the topics it touched. An envelope that was seen already changes nothing."""
    event = envelope.event
    if envelope.seq <= view.seq and not isinstance(event, events.LossyEvent):
        return NOTHING
    topics, step = _SHOWN.get(type(event), (NOTHING, None))
    step_topics = step(view, envelope, event) if step is not None else None
    apply_event(view, envelope, SHARED_STEPS)
    return topics if step_topics is None else step_topics


def _topics(*names: Topic) -> Topics:
    return frozenset(names)


def _in_transcript(step: Callable[[TranscriptState, events.Envelope, Any], Topics | None]) -> Step:
    """Wrap a method of the transcript as a step."""
    return lambda view, envelope, event: step(view.transcript, envelope, event)


def _start_turn(view: ViewState, envelope: events.Envelope, event: events.TurnStarted) -> None:
    view.suggestion = None
    view.turn_numbers.setdefault(envelope.turn, len(view.turn_numbers) + 1)
    is_woken = event.cause == "job" and bool(view.turns)
    view.turn_prompts[envelope.turn] = (view.turns[-1].request if is_woken else event.prompt)[:MAX_PROMPT_CHARS]
    if not view.changes and not view.bulks:
        view.review_verdicts.clear()
    view.steering.returned.clear()
    if event.cause == "prompt":
        view.job_ends.clear()
    if event.cause == "job":
        view.transcript.add_notice(envelope, "The agent goes on: a background command has ended.")
    else:
        if (loop := view.loops.get(event.loop)) is not None:
            view.transcript.add_notice(envelope, f"{event.loop}, run {loop.runs + 1}: sent by the program")
        view.transcript.add_prompt("prompt", envelope, event.prompt)
    if event.model not in {"", view.shown_model}:
        view.model_choices.route = events.RouteTaken(model=event.model)  # a log without routes names it here alone


def _start_step(view: ViewState, envelope: events.Envelope, _: events.StepStarted) -> None:
    view.wait = ModelWait(envelope.seq)


def _read_prompt(view: ViewState, _: events.Envelope, event: events.PromptRead) -> None:
    if view.wait is not None:
        view.wait = ModelWait(view.wait.seq, event.processed, event.total)


def _finish_step(view: ViewState, _: events.Envelope, event: events.StepFinished) -> None:
    view.retry = view.wait = None
    view.context_used = event.context_tokens or view.context_used


def _retry_step(view: ViewState, envelope: events.Envelope, event: events.StepRetried) -> None:
    view.transcript.retry_step(envelope, event)
    view.retry = PendingRetry(event.delay_ms, envelope.seq, RETRY_REASONS.get(event.code, "failed"))
    view.wait = ModelWait(envelope.seq)


def _finish_turn(view: ViewState, envelope: events.Envelope, event: events.TurnFinished) -> None:
    view.retry = view.wait = None
    view.transcript.finish_turn(envelope, event)
    view.stale_receipts.add(envelope.turn)
    view.debug.end()


def _suggest(view: ViewState, _: events.Envelope, event: events.PromptSuggested) -> None:
    view.suggestion = event


def _add_steer(view: ViewState, envelope: events.Envelope, event: events.TurnSteered) -> Topics | None:
    if not event.id:  # of an older program, which did not record the outcome
        view.transcript.add_prompt("steer", envelope, event.text)
        return _topics("queue", "blocks")
    view.steering.seqs[event.id] = envelope.seq
    view.steering.returned.clear()
    return None


def _deliver_steers(view: ViewState, envelope: events.Envelope, event: events.SteerDelivered) -> Topics | None:
    for text in [view.pending_steers[steer_id] for steer_id in event.ids if steer_id in view.pending_steers]:
        view.transcript.add_prompt("steer", envelope, text)
    return None if event.ids else NOTHING


def _append_message(view: ViewState, envelope: events.Envelope, event: events.MessageAppended) -> Topics | None:
    for text in [view.pending_steers[steer_id] for steer_id in event.steers if steer_id in view.pending_steers]:
        view.transcript.add_prompt("steer", envelope, text)
    is_shown = view.transcript.show_attachments(event.message)
    return None if event.steers or is_shown else NOTHING


def _return_steer(view: ViewState, envelope: events.Envelope, event: events.SteerReturned) -> None:
    if event.id not in view.steering.dropped:
        view.steering.returned.append((event.text, envelope.seq))


def _add_label(view: ViewState, _: events.Envelope, event: events.AttachmentAdded) -> None:
    view.steering.labels[event.request] = event.label


def _start_document(view: ViewState, envelope: events.Envelope, event: events.DocumentStarted) -> None:
    view.retry = view.wait = None
    view.transcript.start_document(envelope, event)


def _touch_change(view: ViewState, _: events.Envelope, event: events.ChangeProposed | events.ChangeRevised) -> None:
    view.touched_paths.add(event.change.path)
    _note_change(view, event.change.path)
    view.note_origin(event.change.origin)


def _note_change(view: ViewState, path: str) -> None:
    if (change := view.changes.get(path)) is not None:
        view.note_origin(change.origin)


def _add_verdict(view: ViewState, _: events.Envelope, event: events.VerdictGiven) -> None:
    view.review_verdicts.add(event.verdict.id)
    view.note_origin(event.verdict.origin)


def _undo_verdict(view: ViewState, _: events.Envelope, event: events.VerdictUndone) -> None:
    for record in view.review.verdicts:
        if record.id == event.id:
            view.note_origin(record.origin)


def _touch_path(view: ViewState, _: events.Envelope, event: events.ChangeResolved | events.FileWritten) -> None:
    view.touched_paths.add(event.path)
    _note_change(view, event.path)


def _touch_paths(view: ViewState, _: events.Envelope, event: events.FilesChanged) -> None:
    view.touched_paths.update(event.paths)
    view.is_any_touched = view.is_any_touched or not event.paths


def _ask(view: ViewState, envelope: events.Envelope, event: events.QuestionAsked) -> None:
    view.question_places[event.id] = QuestionLocation(envelope.turn, view.transcript.calls.get(event.call, ""))
    if event.questions[0].id in {REPRODUCE_QUESTION, FIXED_QUESTION}:
        view.debug.question = event


def _answer(view: ViewState, _: events.Envelope, event: events.QuestionAnswered) -> None:
    if event.id in view.questions:
        view.transcript.show_answers(view.get_question_location(event.id).block, event.answers, "")
    if view.debug.question is not None and view.debug.question.id == event.id:
        view.debug.question = None


def _rewind(view: ViewState, _: events.Envelope, event: events.ConversationRewound) -> Topics | None:
    view.debug.end()
    view.debug.probe_check = None
    if event.checkpoint not in view.transcript.checkpoints:
        return NOTHING
    view.transcript.rewind(event.checkpoint)
    view.suggestion = None
    for question in view.checkpoints[event.checkpoint].questions:
        view.transcript.show_answers(view.get_question_location(question.id).block, (), "cancelled")
    return None


def _add_live_records(view: ViewState, _: events.Envelope, event: events.ProbeLogged) -> Topics | None:
    if view.debug.reproduction is None:
        return NOTHING
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
    view.debug.can_probe = event.is_contained


def _count_clients(view: ViewState, _: events.Envelope, event: events.ClientsChanged) -> None:
    view.client_count = event.count


def _set_index(view: ViewState, _: events.Envelope, event: events.IndexProgressed) -> None:
    view.index = event.status


def _set_background(view: ViewState, _: events.Envelope, event: events.BackgroundReported) -> None:
    view.background = event.agents


def _end_job(view: ViewState, envelope: events.Envelope, event: events.JobEnded) -> None:
    view.job_ends[event.id] = event
    text, hint = f"{event.id} ended: {event.command}", f"{describe_end(event)}; {event.effects}"
    view.transcript.add_notice(envelope, text, hint=hint, level="warning" if event.is_failure else "info")


def _set_model(view: ViewState, _: events.Envelope, event: events.ModelChanged) -> None:
    if not event.mode:
        view.model_choices.route = None  # until it is known who answers, it is the one that was chosen


def _set_plan(view: ViewState, _: events.Envelope, event: events.PlanCreated | events.PlanUpdated) -> Topics | None:
    return _topics("plan", "blocks") if view.transcript.mark_todos(event.plan.path, event.plan.todos) else None


def _set_todos(view: ViewState, _: events.Envelope, event: events.TodoChanged) -> Topics | None:
    return _topics("plan", "blocks") if view.transcript.mark_todos(event.plan, event.todos) else None


def _show_repair(view: ViewState, envelope: events.Envelope, event: events.SessionResumed) -> Topics | None:
    view.loss, view.resumed = "", Resumption(envelope.at, envelope.at - view.updated)
    view.job_ends.clear()
    if event.repaired:
        view.transcript.add_notice(envelope, event.repaired)
    return None if event.repaired else NOTHING


def _show_restore(view: ViewState, envelope: events.Envelope, event: events.CheckpointRestored) -> None:
    text = "The files had not changed: nothing to rewind."
    if event.files:
        text = f"Rewound {count('file', len(event.files))}."
    view.transcript.add_notice(envelope, text, hint="/rewind undoes that")


def _add_commit_output(view: ViewState, _: events.Envelope, event: events.CommitProgressed) -> None:
    view.commits.output += event.text


def _end_commit(view: ViewState, envelope: events.Envelope, event: events.AnyEvent) -> None:
    view.commits.ends.append(event)
    view.commits.output = ""
    if isinstance(event, events.CommitMade | events.PullRequestOpened):
        text, hint = describe_commit_end(event)
        is_warning = isinstance(event, events.CommitMade) and bool(hint)
        view.transcript.add_notice(envelope, text, hint=hint, level="warning" if is_warning else "info")


def describe_commit_end(event: events.CommitMade | events.PullRequestOpened) -> tuple[str, str]:
    """Return a sentence about what was committed or pushed, and a hint."""
    if isinstance(event, events.PullRequestOpened):
        return f"Pushed {event.branch}", event.url
    place = f"{event.id[:10]} on {event.branch or 'detached HEAD'}"
    return f"Committed {place}: {event.subject} · {count('file', len(event.files))}", event.problem


def _show_notice(view: ViewState, envelope: events.Envelope, event: events.Notice) -> None:
    view.transcript.add_notice(envelope, event.message, hint=event.hint, level=event.level)


def _show_error(view: ViewState, envelope: events.Envelope, event: events.ErrorRaised) -> Topics | None:
    view.commits.ends.append(event)
    view.loss = event.message if event.code == "state_lost" else view.loss
    if view.transcript.has_shown(event.message):
        return _COMMITS
    view.transcript.add_error(envelope, event)
    if not event.path:
        return None
    view.refusals[event.path] = f"{event.message} {event.hint}".strip()
    return _topics("blocks", "status", "review", "commits")


def _show_compaction(view: ViewState, envelope: events.Envelope, event: events.ContextCompacted) -> None:
    text = f"history compacted: {event.before_tokens:,} to {event.after_tokens:,} tokens"
    view.transcript.add_notice(envelope, text)


def _show_goal_check(view: ViewState, envelope: events.Envelope, event: events.GoalChecked) -> None:
    view.transcript.add_notice(envelope, format_check(event), hint=event.output)


def _show_goal_end(view: ViewState, envelope: events.Envelope, event: events.GoalEnded) -> None:
    level = "info" if event.reason == "met" else "warning"
    view.transcript.add_notice(envelope, format_end(event), level=level)


def _show_loop(view: ViewState, envelope: events.Envelope, event: events.LoopStarted | events.LoopEnded) -> None:
    hint = event.prompt if isinstance(event, events.LoopStarted) else ""
    level = "warning" if isinstance(event, events.LoopEnded) and event.reason == "failed" else "info"
    view.transcript.add_notice(envelope, format_loop(event), hint=hint, level=level)


def _add_to_aside(view: ViewState, _: events.Envelope, event: events.AsideDelta) -> None:
    view.asides.setdefault(event.id, AsideState()).text += event.text


def _finish_aside(view: ViewState, _: events.Envelope, event: events.AsideAnswered) -> None:
    view.asides[event.id] = AsideState(event.question, event.text, event)


def _report_findings(view: ViewState, envelope: events.Envelope, event: events.FindingsReported) -> None:
    summary = f"{count('finding', len(event.findings))} · /findings shows them" if event.findings else "nothing found"
    view.transcript.add_notice(envelope, f"review of {event.subject}: {summary}")


_BLOCKS, _STATUS, _QUEUE, _DEBUG = _topics("blocks"), _topics("status"), _topics("queue"), _topics("debug")
_SAID = _BLOCKS | _STATUS
_COMMITS = _topics("commits")
_STEP = _BLOCKS | _STATUS | _QUEUE
_REVIEW = _topics("review", "status", "files")
_FILES = _topics("files")
_ASK = _topics("ask", "status", "blocks", "debug", "agents")
_SESSION = _topics("session", "status", "debug")
_MODEL = _topics("session", "status")
_PLAN = _topics("plan")
_SUBAGENT = _topics("blocks", "status", "plan", "agents")

_STEPLESS: Final[Mapping[Topics, Iterable[type[events.Event]]]] = {
    _SESSION: {events.SessionStarted, events.SessionRenamed},
    _MODEL: {events.EffortChanged, events.RouteTaken, events.ModelUsed},
    _STATUS: {
        events.GoalSet,
        events.BranchChanged,
        events.LimitsChanged,
        events.PolicyChanged,
        events.JobStarted,
        events.JobRestarted,
        events.PortsChanged,
    },
    _ASK: {events.TrustStated, events.ApprovalRequested, events.ApprovalResolved, events.AnswersReported},
    _QUEUE: {events.DraftKept, events.ReviewPolicyKept},
    _REVIEW: {
        events.ChangeConflicted,
        events.LayersChanged,
        events.CheckRecorded,
        events.VerificationRecorded,
        events.EvidenceRecorded,
        events.ProofFinished,
        events.MutantDismissed,
        events.HunkCommented,
        events.PlanCommented,
        events.CommentsSent,
        events.DiagnosticsReported,
        events.FindingsSettled,
    },
    _PLAN: {events.TodoVerified},
    _DEBUG: {events.HypothesesSet, events.HypothesisJudged, events.FixJudged, events.ProbeRemoved, events.RunRecorded},
}
_SHOWN: Final[Mapping[type[events.Event], tuple[Topics, Step | None]]] = {
    **{kind: (topics, None) for topics, kinds in _STEPLESS.items() for kind in kinds},
    events.SessionResumed: (_SAID, _show_repair),
    events.ModeChanged: (_SESSION, _change_mode),
    events.ModelChanged: (_MODEL, _set_model),
    events.AttachmentAdded: (_QUEUE, _add_label),
    events.TurnStarted: (_STEP, _start_turn),
    events.TurnSteered: (_QUEUE, _add_steer),
    events.SteerDelivered: (_QUEUE | _BLOCKS, _deliver_steers),
    events.SteerReturned: (_QUEUE, _return_steer),
    events.PromptSuggested: (_topics("session"), _suggest),
    events.TurnFinished: (_ASK, _finish_turn),
    events.StepStarted: (_STEP, _start_step),
    events.PromptRead: (_STATUS, _read_prompt),
    events.StepFinished: (_STATUS, _finish_step),
    events.StepRetried: (_STEP, _retry_step),
    events.MessageAppended: (_QUEUE | _BLOCKS, _append_message),
    events.DocumentStarted: (_BLOCKS, _start_document),
    events.DocumentDelta: (_BLOCKS, _in_transcript(TranscriptState.add_delta)),
    events.DocumentFinished: (_BLOCKS, _in_transcript(TranscriptState.finish_document)),
    events.ToolRequested: (_SAID, _in_transcript(TranscriptState.start_call)),
    events.ToolOutput: (_BLOCKS, _in_transcript(TranscriptState.add_output)),
    events.ToolFinished: (_SAID, _in_transcript(TranscriptState.finish_call)),
    events.QuestionAsked: (_ASK, _ask),
    events.QuestionAnswered: (_ASK, _answer),
    events.ChangeProposed: (_REVIEW, _touch_change),
    events.ChangeRevised: (_REVIEW, _touch_change),
    events.ChangeResolved: (_REVIEW | _BLOCKS, _touch_path),
    events.VerdictGiven: (_REVIEW | _BLOCKS, _add_verdict),
    events.VerdictUndone: (_REVIEW | _BLOCKS, _undo_verdict),
    events.FileWritten: (_FILES, _touch_path),
    events.FilesChanged: (_FILES, _touch_paths),
    events.CheckpointCreated: (NOTHING, _in_transcript(TranscriptState.mark_checkpoint)),
    events.CheckpointRestored: (_SAID, _show_restore),
    events.ConversationRewound: (_ASK | _MODEL, _rewind),
    events.BoxFound: (_STATUS, _set_box),
    events.IndexProgressed: (_topics("status", "index"), _set_index),
    events.ClientsChanged: (_STATUS, _count_clients),
    events.BackgroundReported: (_topics("agents"), _set_background),
    events.JobEnded: (_SAID, _end_job),
    events.PlanCreated: (_PLAN, _set_plan),
    events.PlanUpdated: (_PLAN, _set_plan),
    events.PlanWritten: (_PLAN, None),
    events.TodoChanged: (_PLAN, _set_todos),
    events.ProbeAdded: (_DEBUG, _add_probe),
    events.ProbesChecked: (_DEBUG, _set_probe_check),
    events.ProbeLogged: (_DEBUG, _add_live_records),
    events.ReproduceRequested: (_DEBUG, _restart_records),
    events.ReproduceEnded: (_DEBUG, _restart_records),
    events.SubagentStarted: (_SUBAGENT, _in_transcript(TranscriptState.start_subagent)),
    events.SubagentProgressed: (_topics("blocks", "plan", "agents"), _in_transcript(TranscriptState.show_progress)),
    events.SubagentFinished: (_SUBAGENT, _in_transcript(TranscriptState.finish_subagent)),
    events.SubagentRated: (_SUBAGENT, _in_transcript(TranscriptState.show_rating)),
    events.SubagentMerged: (_SUBAGENT, _in_transcript(TranscriptState.show_merge)),
    events.ContextMeasured: (_STATUS, None),
    events.ContextCompacted: (_SAID, _show_compaction),
    events.AsideDelta: (_topics("asides"), _add_to_aside),
    events.AsideAnswered: (_topics("asides"), _finish_aside),
    events.GoalChecked: (_SAID, _show_goal_check),
    events.GoalEnded: (_SAID, _show_goal_end),
    events.LoopStarted: (_SAID, _show_loop),
    events.LoopEnded: (_SAID, _show_loop),
    events.RulesLoaded: (_SAID, _in_transcript(TranscriptState.show_rules)),
    events.CommitProgressed: (_COMMITS, _add_commit_output),
    events.CommitDrafted: (_COMMITS, _end_commit),
    events.CommitSorted: (_COMMITS, _end_commit),
    events.CommitMade: (_COMMITS | _SAID | _topics("review"), _end_commit),
    events.CommitFailed: (_COMMITS, _end_commit),
    events.PullRequestDrafted: (_COMMITS, _end_commit),
    events.PullRequestOpened: (_COMMITS | _SAID, _end_commit),
    events.VerificationProgressed: (_topics("review"), ViewState.show_verification),
    events.VerificationFinished: (_REVIEW, None),
    events.ProofProgressed: (_topics("proof"), ViewState.show_proof_progress),
    events.FindingsReported: (_REVIEW | _BLOCKS, _report_findings),
    events.Notice: (_SAID, _show_notice),
    events.ErrorRaised: (_SAID | _COMMITS, _show_error),
}
