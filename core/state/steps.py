"""Steps of the fold: the effect of every kind of event on a session's state.

No part of a conversation is lost: a checkpoint on an abandoned branch restores it. Conversations are branches of a tree
whose nodes are records of the log; a rewind continues from another node. Messages on abandoned branches are not in
memory, but are read from the log when they are needed.

A lasting question stays open when its turn ends and when the program does. Its answer is delivered by the result of the
call that asked, or by a report; until then no interrupt and no kill loses it. A message to a running turn waits until a
model was sent it or the user has it back; logs of older programs give it no id, and then it does not wait.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from core.errors import StateError
from core.patterns import compile_lazily
from core.protocol import events as ev
from core.protocol.documents import TerminalCommandDocument, TerminalCommandMetadata
from core.protocol.messages import AssistantMessage, Message, ToolMessage, UserMessage
from core.state.goals import GoalState
from core.state.loops import LoopState
from core.state.session import (
    CheckRun,
    ConversationCheckpoint,
    SessionState,
    SubagentState,
    TurnState,
    UnreportedAnswer,
    add_usage,
)

MAX_CLAIM = 240  # characters of the agent's words for a call
MAX_CLAIMS = 1_000  # calls whose words are known
_CALL_IN_TEXT = compile_lazily(r"```|<")


def resume(state: SessionState, _: ev.Envelope, event: ev.SessionResumed) -> None:
    state.is_closed = False
    state.branch = event.branch or state.branch
    state.is_unattended = state.is_unattended and event.unattended
    state.accepts_at_once = event.accepts_at_once


def close(state: SessionState, _: ev.Envelope, __: ev.SessionClosed) -> None:
    state.is_closed = True


def set_model(state: SessionState, _: ev.Envelope, event: ev.ModelChanged) -> None:
    if event.mode:
        state.model_choices.models[event.mode] = event.model
    else:
        state.model, state.context_window = event.model, event.context_window
    state.dropped_reasoning_count = 0


def set_effort(state: SessionState, _: ev.Envelope, event: ev.EffortChanged) -> None:
    if event.mode:
        state.model_choices.efforts[event.mode] = event.effort
    else:
        state.model_choices.effort = event.effort


def set_tier(state: SessionState, _: ev.Envelope, event: ev.TierChanged) -> None:
    state.model_choices.tier = event.tier


def set_route(state: SessionState, _: ev.Envelope, event: ev.RouteTaken) -> None:
    choices = state.model_choices
    if event.model != (choices.route.model if choices.route else state.model):
        state.dropped_reasoning_count = 0
    choices.route = event
    state.context_window = event.context_window or state.context_window


def add_model_usage(state: SessionState, _: ev.Envelope, event: ev.ModelUsed) -> None:
    state.model_choices.add_usage(event.job, event.model, event.usage)


def add_attachment(state: SessionState, _: ev.Envelope, event: ev.AttachmentAdded) -> None:
    state.attachments[event.label] = event.attachment


def add_verdict(state: SessionState, _: ev.Envelope, event: ev.VerdictGiven) -> None:
    if event.verdict.settled is None:
        state.unreported_verdicts[event.verdict.id] = event.verdict


def undo_verdict(state: SessionState, _: ev.Envelope, event: ev.VerdictUndone) -> None:
    state.unreported_verdicts.pop(event.id, None)
    if verdict_record := state.reported_verdicts.pop(event.id, None):
        state.undone_verdicts[event.id] = verdict_record


def report_verdicts(state: SessionState, _: ev.Envelope, event: ev.VerdictsReported) -> None:
    for verdict in event.ids:
        if fresh := state.unreported_verdicts.pop(verdict, None):
            state.reported_verdicts[verdict] = fresh


def set_plan(state: SessionState, _: ev.Envelope, event: ev.PlanCreated | ev.PlanUpdated) -> None:
    state.current_plan_path = event.plan.path
    state.plans[event.plan.path] = event.plan


def drop_removed_plan(state: SessionState, _: ev.Envelope, event: ev.PlanWritten) -> None:
    if event.state.kind != "absent":
        return
    state.plans.pop(event.path, None)
    if state.current_plan_path == event.path:
        state.current_plan_path = next(reversed(state.plans), "")


def set_context(state: SessionState, _: ev.Envelope, event: ev.ContextMeasured) -> None:
    state.context_used = event.used
    state.context_window = event.window or state.context_window
    state.dropped_reasoning_count, state.cache_miss = event.dropped_reasoning, event.cache_miss


def count_job(state: SessionState, _: ev.Envelope, __: ev.JobStarted) -> None:
    state.job_count += 1


def start_turn(state: SessionState, envelope: ev.Envelope, event: ev.TurnStarted) -> None:
    if state.turns:
        state.turns[-1].documents.clear()
    turn = TurnState(
        id=envelope.turn,
        seq=envelope.seq,
        prompt=event.prompt,
        mode=event.mode,
        model=event.model,
        started=envelope.at,
        cause=event.cause,
        loop=event.loop,
        request=state.turns[-1].request if event.cause == "job" and state.turns else event.prompt,
    )
    state.turns.append(turn)
    if (loop := state.loops.get(event.loop)) is not None:
        loop.runs, loop.last_run = loop.runs + 1, envelope.at
    state.turn_branch.add(envelope.seq)
    state.draft = ""


def finish_turn(state: SessionState, _: ev.Envelope, event: ev.TurnFinished) -> None:
    state.usage = add_usage(state.usage, event.usage)
    state.debug.drop_probes()
    turn = state.current_turn
    if turn is not None:
        turn.reason, turn.usage, turn.steps = event.reason, event.usage, event.steps
        turn.duration_ms, turn.message = event.duration_ms, event.message
        turn.calls.clear()


def set_goal(state: SessionState, envelope: ev.Envelope, event: ev.GoalSet) -> None:
    state.goal = GoalState(
        condition=event.condition, check=event.check, max_rounds=event.max_rounds, started=envelope.at
    )


def add_goal_check(state: SessionState, _: ev.Envelope, event: ev.GoalChecked) -> None:
    if state.goal is not None:
        state.goal.rounds.append(event)


def end_goal(state: SessionState, _: ev.Envelope, event: ev.GoalEnded) -> None:
    if state.goal is not None:
        state.goal.reason, state.goal.message = event.reason, event.message


def start_loop(state: SessionState, envelope: ev.Envelope, event: ev.LoopStarted) -> None:
    state.loops[event.id] = LoopState(loop=event, started=envelope.at)
    state.loop_count += 1


def end_loop(state: SessionState, _: ev.Envelope, event: ev.LoopEnded) -> None:
    state.loops.pop(event.id, None)


def start_step(state: SessionState, _: ev.Envelope, event: ev.StepStarted) -> None:
    if (turn := state.current_turn) is not None:
        turn.step = event.step


def finish_step(state: SessionState, _: ev.Envelope, event: ev.StepFinished) -> None:
    if (turn := state.current_turn) is not None:
        turn.steps, turn.usage = event.step, add_usage(turn.usage, event.usage)
        state.model_choices.add_usage("chat", event.model or turn.model, event.usage)


def void_documents(state: SessionState, _: ev.Envelope, event: ev.StepRetried) -> None:
    if (turn := state.current_turn) is not None:
        for document in event.void_documents:
            turn.documents.pop(document, None)


def start_document(state: SessionState, envelope: ev.Envelope, event: ev.DocumentStarted) -> None:
    if state.turns and not _is_outside_turn(state, envelope):
        state.turns[-1].documents.setdefault(event.id, None)


def finish_document(state: SessionState, envelope: ev.Envelope, event: ev.DocumentFinished) -> None:
    document = event.document
    if isinstance(document, TerminalCommandDocument):
        state.command_history[document.metadata.command] = None
        state.last_run = document
    if state.turns and not _is_outside_turn(state, envelope):
        state.turns[-1].documents[document.id] = document
        if isinstance(document, TerminalCommandDocument):
            _drop_older_run(state.turns[-1], document.metadata)


def _drop_older_run(turn: TurnState, run: TerminalCommandMetadata) -> None:
    """Drop the report of an earlier run of a command if its last run has none, because it did not end, for example."""
    check_run = turn.checks.get(run.command)
    if check_run is not None and check_run.call and check_run.call != run.tool_call_id:
        del turn.checks[run.command]


def record_check(state: SessionState, _: ev.Envelope, event: ev.CheckRecorded) -> None:
    """Note that a command checked. Only this event makes a command a check, never its output."""
    if (turn := state.current_turn) is not None:
        check = event.check
        turn.checks.pop(check.command, None)  # The last run also has to be the last one in order.
        turn.checks[check.command] = CheckRun(check.exit_code, check.tests, check.call)


def start_call(state: SessionState, envelope: ev.Envelope, event: ev.ToolRequested) -> None:
    turn = state.current_turn
    if turn is not None and not _is_outside_turn(state, envelope):
        turn.calls[event.call] = event
        turn.tool_count += 1


def finish_call(state: SessionState, _: ev.Envelope, event: ev.ToolFinished) -> None:
    if (turn := state.current_turn) is not None:
        turn.calls.pop(event.call, None)


def _is_outside_turn(state: SessionState, envelope: ev.Envelope) -> bool:
    """Return True if an event belongs to no turn: a command of the user, also while a turn runs."""
    return not envelope.turn and bool(state.turns) and bool(state.turns[-1].id)


def append_message(state: SessionState, envelope: ev.Envelope, event: ev.MessageAppended) -> None:
    state.messages.append(event.message)
    state.message_branch.add(envelope.seq)
    if isinstance(event.message, AssistantMessage) and event.message.tool_calls:
        _add_claims(state, event.message)


def _add_claims(state: SessionState, message: AssistantMessage) -> None:
    """Bind the agent's last words before its calls to each of these."""
    text = message.content
    if message.dialect or message.in_text:  # the calls themselves stand in the text
        text = _CALL_IN_TEXT.split(text, 1)[0]
    words = " ".join(text.strip().rpartition("\n\n")[2].split())
    if not words:
        return
    claim = words if len(words) <= MAX_CLAIM else f"{words[: MAX_CLAIM - 1]}…"
    state.claims |= dict.fromkeys((call.id for call in message.tool_calls), claim)
    for call in list(state.claims)[:-MAX_CLAIMS]:
        del state.claims[call]


def deliver_with_message(state: SessionState, _: ev.Envelope, event: ev.MessageAppended) -> None:
    """Drop what a message delivers: steers, and the answers in the successful result of the call that asked."""
    for steer in event.steers:
        state.pending_steers.pop(steer, None)
    message = event.message
    if isinstance(message, ToolMessage) and not message.is_error and state.unreported_answers:
        for question_id in [
            key for key, answer in state.unreported_answers.items() if answer.asked.call == message.call_id
        ]:
            del state.unreported_answers[question_id]


def compact_history(state: SessionState, envelope: ev.Envelope, event: ev.ContextCompacted) -> None:
    state.messages[:] = event.messages
    state.message_branch.tip = 0
    state.message_branch.add(envelope.seq)


def measure_compacted(state: SessionState, _: ev.Envelope, event: ev.ContextCompacted) -> None:
    state.context_used = event.after_tokens
    state.dropped_reasoning_count = 0


def drop_spans(state: SessionState, envelope: ev.Envelope, event: ev.ContextDropped) -> None:
    _replace_spans(state.messages, event)
    state.message_branch.add(envelope.seq)


def _replace_spans(messages: list[Message], event: ev.ContextDropped) -> None:
    """Replace every span by the note, from the last one on, so that the indexes of the others stay valid."""
    for span in sorted(event.spans, key=lambda dropped_span: (dropped_span.message, dropped_span.start), reverse=True):
        message = messages[span.message] if span.message < len(messages) else None
        if isinstance(message, UserMessage | ToolMessage):
            content = f"{message.content[: span.start]}{event.note}{message.content[span.end :]}"
            attachments = message.attachments if isinstance(message, UserMessage) else ()
            messages[span.message] = replace(message, content=content, attachments=attachments)


def drop_reasoning(state: SessionState, envelope: ev.Envelope, _: ev.ReasoningDropped) -> None:
    state.messages[:] = _strip_reasoning(state.messages)
    state.message_branch.add(envelope.seq)


def _strip_reasoning(messages: Iterable[Message]) -> list[Message]:
    """Return the messages without the parts that only their API can read: answers go back as text and calls."""
    return [replace(message, wire=None) if isinstance(message, AssistantMessage) else message for message in messages]


def add_steer(state: SessionState, _: ev.Envelope, event: ev.TurnSteered) -> None:
    if event.id:
        state.pending_steers[event.id] = event.text


def record_answer(state: SessionState, _: ev.Envelope, event: ev.QuestionAnswered) -> None:
    question = state.questions.pop(event.id, None)
    if question is not None and question.lasting and event.answers:
        state.unreported_answers[event.id] = UnreportedAnswer(question, event)


def add_checkpoint(state: SessionState, envelope: ev.Envelope, event: ev.CheckpointCreated) -> None:
    state.checkpoints[event.id] = ConversationCheckpoint(
        id=event.id,
        seq=event.seq,
        at=envelope.at,
        prompt=event.prompt,
        before=event.before,
        generated=event.generated,
        messages=len(state.messages),
        last_message=state.message_branch.tip,
        last_turn=state.turn_branch.tip,
        todos=state.todos,
        plan_path=state.todos_plan_path,
        reported_verdicts=tuple(state.reported_verdicts),
        questions=(*(answer.asked for answer in state.unreported_answers.values()), *state.questions.values()),
    )
    state.debug.checkpoints[event.id] = state.debug.hypotheses


def rewind_turns(state: SessionState, _: ev.Envelope, event: ev.ConversationRewound) -> None:
    """Rewind the turns to a checkpoint, and reopen its questions."""
    checkpoint = state.checkpoints.get(event.checkpoint)
    if checkpoint is None:
        return
    state.turn_branch.tip = checkpoint.last_turn
    turns_by_seq = state.left_turns | {turn.seq: turn for turn in state.turns}
    state.turns[:] = [turns_by_seq.pop(record) for record in state.turn_branch.list_records()]
    state.left_turns = turns_by_seq
    state.unreported_answers.clear()
    state.agent_sessions.clear()  # They know messages that were rewound.
    state.questions = {question.id: question for question in checkpoint.questions}


def rewind_messages(state: SessionState, _: ev.Envelope, event: ev.ConversationRewound) -> None:
    """Rewind the history to a checkpoint; verdicts that were reported after it are unreported again."""
    checkpoint = state.checkpoints.get(event.checkpoint)
    if checkpoint is None:
        return
    state.message_branch.tip = checkpoint.last_message
    state.messages[:] = _read_messages(state.recall(state.message_branch.list_records()))
    for verdict_id in [
        verdict_id for verdict_id in state.reported_verdicts if verdict_id not in checkpoint.reported_verdicts
    ]:
        state.unreported_verdicts[verdict_id] = state.reported_verdicts.pop(verdict_id)


def _read_messages(records: Iterable[ev.Envelope]) -> list[Message]:
    history = list[Message]()
    for record in records:
        match record.event:
            case ev.MessageAppended(message=message):
                history.append(message)
            case ev.ContextCompacted(messages=messages):
                history += messages
            case ev.ContextDropped():
                _replace_spans(history, record.event)
            case ev.ReasoningDropped():
                history[:] = _strip_reasoning(history)
            case _:
                raise StateError(f"record {record.seq} of the session log is not a message.")
    return history


def start_subagent(state: SessionState, _: ev.Envelope, event: ev.SubagentStarted) -> None:
    previous_subagent = state.subagents.pop(event.id, None)
    new = SubagentState(
        id=event.id,
        todo=event.todo,
        plan=event.plan,
        agent=event.agent,
        title=event.title,
        candidate_of=event.candidate_of,
    )
    state.subagents[event.id] = previous_subagent or new
    subagent = state.subagents[event.id]
    subagent.state, subagent.model, subagent.call = "working", event.model, event.call


def finish_subagent(state: SessionState, _: ev.Envelope, event: ev.SubagentFinished) -> None:
    if (subagent := state.subagents.get(event.id)) is not None:
        subagent.state, subagent.reason, subagent.message = "ended", event.reason, event.message
        subagent.said, subagent.duration_ms = event.said, subagent.duration_ms + event.duration_ms
        subagent.usage = add_usage(subagent.usage, event.usage)
        state.model_choices.add_usage("subagent", subagent.model, event.usage)
    if (turn := state.current_turn) is not None:
        turn.usage = add_usage(turn.usage, event.usage)


def rate_subagent(state: SessionState, _: ev.Envelope, event: ev.SubagentRated) -> None:
    if (subagent := state.subagents.get(event.id)) is not None:
        subagent.rating = event


def begin_merge(state: SessionState, _: ev.Envelope, event: ev.SubagentMerging) -> None:
    if (subagent := state.subagents.get(event.id)) is not None:
        subagent.state = "merging"


def finish_merge(state: SessionState, _: ev.Envelope, event: ev.SubagentMerged) -> None:
    if (subagent := state.subagents.get(event.id)) is not None:
        subagent.state, subagent.conflicts = "ended" if event.refused else "merged", event.conflicts


def close_subagents(state: SessionState, _: ev.Envelope, event: ev.TodoChanged) -> None:
    """Close the subagents whose todos are no longer in progress."""
    working = {todo.id for todo in event.todos if todo.status == "in_progress"}
    for subagent in state.subagents.values():
        if (
            subagent.todo
            and subagent.plan == event.plan
            and subagent.state in {"ended", "merged"}
            and subagent.todo not in working
        ):
            subagent.state = "closed"


def drop_merged_subagents(state: SessionState, _: ev.Envelope, __: ev.CheckpointRestored) -> None:
    """Forget merged subagents: their changes may be gone, so that their todos begin again. A candidate can be taken
    again."""
    for subagent in state.subagents.values():
        if subagent.candidate_of and subagent.state == "merged":
            subagent.state = "ended"
    state.subagents = {key: subagent for key, subagent in state.subagents.items() if subagent.state != "merged"}


def record_merged_change(state: SessionState, _: ev.Envelope, event: ev.ChangeProposed | ev.ChangeRevised) -> None:
    """Record a change as part of the current merge, if it comes from the merged subagent."""
    change = event.change
    for subagent in state.subagents.values():
        is_from_subagent = change.origin is not None and change.origin.call == subagent.id
        if subagent.state == "merging" and (
            is_from_subagent or subagent.id in {other.by for other in change.competing_versions}
        ):
            subagent.joined.add(change.path)


def activate_skill(state: SessionState, _: ev.Envelope, event: ev.SkillActivated) -> None:
    """Store a skill by its name; the last one opened comes last."""
    state.skills.pop(event.name, None)
    state.skills[event.name] = event


def add_foreign_source(state: SessionState, _: ev.Envelope, event: ev.ForeignReceived) -> None:
    """Record permanently the source of foreign text, since the model may follow its instructions much later."""
    state.foreign_sources.setdefault(event.source)


def open_agent_session(state: SessionState, _: ev.Envelope, event: ev.AgentSessionOpened) -> None:
    """Record the session of a hosted agent."""
    state.agent_sessions[event.agent] = event.id
