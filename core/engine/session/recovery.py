"""Close what a cut-off turn left open, so that the history is valid again, and remove its debug probes.

This runs after a crash, when a session is resumed, and after a turn whose own end could not be recorded. All repairs
are recorded as events; the log before them is not changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from core.agent.base.user_channel import QUESTION_STILL_OPEN
from core.agent.debug.debug_policy import remove_marks
from core.agent.gate.call_results import describe_interrupted
from core.engine.session.session import Session
from core.protocol import events as ev
from core.protocol.documents import ClarificationDocument, ClarificationMetadata
from core.protocol.events import Notice, ProbesChecked
from core.protocol.messages import AssistantMessage, Message, ToolMessage
from core.sessions.store import SessionDirectory, is_locked
from core.shadow.content.paths import format_paths
from core.shell.probe_overlay import LAYERS_FOLDER, ProbeOverlay
from core.state.loops import describe_loop
from core.state.session import SessionState

Emit = Callable[[ev.AnyEvent], None]
LOST_EFFECTS = "its changes until then were dropped"
INTERRUPTED_RESULT = "The call was interrupted before it returned; it may have taken effect."
LOOP_CLOSED = "The program ended. /loop sets it again."
MAX_NAMED = 8


def close_open_turn(
    state: SessionState, emit: Emit, *, reason: ev.TurnEnd = "interrupted", message: str = "", is_reopened: bool = False
) -> str:
    """End the turn that `state` shows as running and complete the history. Return a report, "" = nothing was done.
    `is_reopened`: the session comes from another engine, so its jobs no longer exist."""
    turn = state.current_turn
    repairs = []
    for identity, text in list(state.pending_steers.items()):
        emit(ev.SteerReturned(id=identity, text=text))
        repairs.append("Your unsent messages to the turn are back in the prompt.")
    for call in list(turn.calls.values()) if turn is not None else []:
        _finish_question_document(state, call, emit)
        emit(ev.ToolFinished(call=call.call, tool=call.tool, status="cancelled", summary="interrupted"))
    repairs += _end_lost_work(state, emit) if is_reopened else ()
    for approval in list(state.approvals):
        emit(ev.ApprovalResolved(id=approval, decision="reject_once", by="program", note="The turn ended."))
    for subagent in [
        subagent_state.id for subagent_state in state.subagents.values() if subagent_state.state == "working"
    ]:
        emit(ev.SubagentFinished(id=subagent, reason="interrupted"))
    for question in [open_question.id for open_question in state.questions.values() if not open_question.lasting]:
        emit(ev.QuestionAnswered(id=question, by="program"))
    if repair := _complete_history(state, emit):
        repairs.append(repair)
    if state.mode_after_turn:
        emit(ev.ModeChanged(mode=state.mode_after_turn))
    if turn is not None:
        emit(ev.TurnFinished(reason=reason, usage=turn.usage, steps=turn.steps, message=message))
        repairs.append("An interrupted turn was closed.")
    return " ".join(dict.fromkeys(repairs))


def _end_lost_work(state: SessionState, emit: Emit) -> list[str]:
    """End what ran beside the turns in an engine that has gone; return a sentence about each."""
    jobs, loops = list(state.jobs.values()), [loop_state.loop for loop_state in state.loops.values()]
    for job in jobs:
        emit(ev.JobEnded(id=job.id, command=job.command, ended="lost", effects=LOST_EFFECTS))
    if state.ports:
        emit(ev.PortsChanged())
    for loop in loops:
        emit(ev.LoopEnded(id=loop.id, reason="closed", message=LOOP_CLOSED))
    return [
        *(f"The background command {job.command[:60]!r} ended with the program." for job in jobs),
        *(f"The loop ({describe_loop(loop)}) ended with the program." for loop in loops),
    ]


def _finish_question_document(state: SessionState, call: ev.ToolRequested, emit: Emit) -> None:
    open_question = next(
        (question for question in state.questions.values() if question.lasting and question.call == call.call), None
    )
    documents = state.turns[-1].documents
    if open_question is not None and documents.get(call.document, call) is None:
        sequence = list(documents).index(call.document) + 1
        metadata = ClarificationMetadata(questions=open_question.questions)
        title = open_question.title or None
        document = ClarificationDocument(id=call.document, sequence=sequence, content=title, metadata=metadata)
        emit(ev.DocumentFinished(document=document))


def _complete_history(state: SessionState, emit: Emit) -> str:
    """Add missing results of tool calls: at the end by appending, further up by replacing the history."""
    explanations = {
        subagent.call: describe_interrupted(state, subagent.call) or "" for subagent in state.subagents.values()
    }
    explanations.update((question.call, QUESTION_STILL_OPEN) for question in state.questions.values())
    history = complete_results(state.messages, explanations)
    old = list(state.messages)
    if history == old:
        return ""
    if history[: len(old)] == old:
        for message in history[len(old) :]:
            emit(ev.MessageAppended(message=message))
    else:
        token_count = state.context_used
        emit(ev.ContextCompacted(messages=tuple(history), before_tokens=token_count, after_tokens=token_count))
    return "Tool calls without a result were closed."


def complete_results(messages: Sequence[Message], explanations: Mapping[str, str] | None = None) -> list[Message]:
    """Return the history with exactly one result per call, right after the message with the call. `explanations`:
    results for calls without one, by call id."""
    history: list[Message] = []
    waiting: list[str] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            if message.call_id in waiting:
                waiting.remove(message.call_id)
                history.append(message)
            continue
        history += _build_results(waiting, explanations or {})
        waiting = [call.id for call in message.tool_calls] if isinstance(message, AssistantMessage) else []
        history.append(message)
    return history + _build_results(waiting, explanations or {})


def _build_results(calls: Sequence[str], explanations: Mapping[str, str]) -> list[ToolMessage]:
    results = [(call, explanations.get(call) or INTERRUPTED_RESULT) for call in calls]
    return [ToolMessage(call_id=call, content=content, is_error=True) for call, content in results]


def remove_probes(session: Session, *, is_resumed: bool = False) -> None:
    """Remove probe regions from pending changes and report those that are left. Raises `StateError`. `is_resumed`: also
    remove the leftovers of a debug run that ended with its engine."""
    debug = session.state.debug
    if not debug.hypotheses and not debug.probed_paths:
        return
    if is_resumed:
        ProbeOverlay(session.id, session.directory.path, session.directory.cache_path).remove_leftovers()
    leftover_marks = remove_marks(session.shadow, debug.probed_paths, includes_ignored=debug.needs_probe_check)
    if debug.needs_probe_check or leftover_marks.paths:
        session.emit(ProbesChecked(files=leftover_marks.file_count, left=leftover_marks.paths))
    if paths := leftover_marks.paths:
        message = f"Probe markers are left in {format_paths(paths, MAX_NAMED)}."
        hint = "The program did not add them: check them, and remove them."
        session.emit(Notice(level="warning", message=message, hint=hint))


def prune_killed_runs(directory: SessionDirectory) -> None:
    """Remove the debug runs that killed engines left in other sessions of this workspace."""
    for layers in directory.path.parent.glob(f"*/{LAYERS_FOLDER}"):
        if layers.parent != directory.path and not is_locked(layers.parent):
            ProbeOverlay(layers.parent.name, layers.parent, directory.cache_path).remove_leftovers()
