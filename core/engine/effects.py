"""What each command of a session does: checked first, against the state as it is; carried out after the answer.

`prepare` raises `AgentTuiError` for a command that can't be carried out, and otherwise returns its effect.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import assert_never

from core.engine.answering import answered
from core.engine.attaching import attached, check_taken, with_labels
from core.engine.bounds import bounded, check_prompt
from core.engine.live import Effect, LiveSession
from core.engine.permission_answers import removed
from core.engine.plan_effects import planned
from core.engine.review_effects import ReviewCommand, comments_sent, reviewed
from core.engine.rewinding import checkpoint_restored
from core.engine.runtime import TITLE_LENGTH
from core.errors import CommandRejected
from core.permissions.rules import Choice
from core.policy import check_pattern
from core.protocol import commands as cmd
from core.protocol.events import EffortChanged, ModeChanged, ModelChanged, SessionRenamed

SessionCommand = (
    cmd.SessionRename
    | cmd.ModeSet
    | cmd.ModelSet
    | cmd.LimitsSet
    | cmd.PolicySet
    | cmd.EffortSet
    | cmd.PermissionRemove
    | cmd.AttachmentAdd
    | cmd.TurnSubmit
    | cmd.TurnSteer
    | cmd.TurnUnsteer
    | cmd.DraftKeep
    | cmd.TurnInterrupt
    | cmd.ApprovalAnswer
    | cmd.QuestionReply
    | cmd.CommandRun
    | cmd.JobStop
    | cmd.ShellReset
    | ReviewCommand
    | cmd.CommentsSend
    | cmd.CheckpointRestore
    | cmd.PlanEdit
    | cmd.PlanComment
    | cmd.PlanBuild
    | cmd.TodoSet
    | cmd.ContextCompact
)
MAX_PROMPT = 4_000_000


async def prepare(live: LiveSession, command: SessionCommand) -> Effect:
    """The effect of `command`. Raises what `Reject` is to say."""
    match command:
        case (
            cmd.AttachmentAdd()
            | cmd.TurnSubmit()
            | cmd.TurnSteer()
            | cmd.TurnUnsteer()
            | cmd.DraftKeep()
            | cmd.TurnInterrupt()
            | cmd.ContextCompact()
            | cmd.CommandRun()
            | cmd.JobStop()
            | cmd.ShellReset()
        ):
            return await _turn(live, command)
        case cmd.ApprovalAnswer() | cmd.QuestionReply():
            return _approve(live, command) if isinstance(command, cmd.ApprovalAnswer) else answered(live, command)
        case cmd.CommentsSend():
            return await comments_sent(live, command)
        case (
            cmd.HunkResolve()
            | cmd.HunkSplit()
            | cmd.HunkEdit()
            | cmd.HunkComment()
            | cmd.ConflictSettle()
            | cmd.BulkResolve()
            | cmd.VerdictUndo()
            | cmd.CheckpointRestore()
        ):
            return _review(live, command)
        case cmd.PlanEdit() | cmd.PlanComment() | cmd.PlanBuild() | cmd.TodoSet():
            return await planned(live, command)
        case _:
            return await _setting(live, command)


def _review(live: LiveSession, command: ReviewCommand | cmd.CheckpointRestore) -> Effect:
    return checkpoint_restored(live, command) if isinstance(command, cmd.CheckpointRestore) else reviewed(live, command)


TerminalCommand = cmd.CommandRun | cmd.JobStop | cmd.ShellReset
TurnCommand = (
    cmd.AttachmentAdd
    | cmd.TurnSubmit
    | cmd.TurnSteer
    | cmd.TurnUnsteer
    | cmd.DraftKeep
    | cmd.TurnInterrupt
    | cmd.ContextCompact
)


async def _turn(live: LiveSession, command: TurnCommand | TerminalCommand) -> Effect:
    turns = live.turns
    match command:
        case cmd.AttachmentAdd() | cmd.TurnSteer() | cmd.TurnUnsteer() | cmd.DraftKeep():
            return await _beside(live, command)
        case cmd.TurnSubmit():
            check_prompt(live.runtime, command)
            text = with_labels(command.text, command.attachments, live.runtime)
            _check_text(text, "prompt")
            await check_taken(live, text)
            await turns.reserve()
            return partial(turns.start, text, command.open_files)
        case cmd.TurnInterrupt():
            if not turns.running and live.runs_commands:
                return live.stop_commands
            _need_turn(live)
            turns.stopping = True
            return turns.interrupt
        case cmd.ContextCompact():
            if not live.runtime.state.messages:
                raise CommandRejected("there is nothing to compact yet.", code="nothing_to_compact")
            await turns.reserve()
            return turns.start_compaction
        case cmd.CommandRun() | cmd.JobStop() | cmd.ShellReset():
            return _terminal(live, command)
        case _ as unreachable:
            assert_never(unreachable)


async def _beside(
    live: LiveSession, command: cmd.AttachmentAdd | cmd.TurnSteer | cmd.TurnUnsteer | cmd.DraftKeep
) -> Effect:
    """What begins no turn, and can be done while one runs."""
    match command:
        case cmd.AttachmentAdd():
            return await attached(live, command)
        case cmd.TurnSteer():
            return await _steer(live, command)
        case _:
            return _unsaid(live, command)


async def _steer(live: LiveSession, command: cmd.TurnSteer) -> Effect:
    text = with_labels(command.text, command.attachments, live.runtime)
    _check_text(text, "message")
    await check_taken(live, text)
    _need_turn(live)
    if live.turns.stopping:
        raise CommandRejected("the turn is being stopped.", hint="Send it as a prompt.", code="turn_stopping")
    return partial(live.steer, text)


def _unsaid(live: LiveSession, command: cmd.TurnUnsteer | cmd.DraftKeep) -> Effect:
    """What the user has back, or never sent."""
    if isinstance(command, cmd.DraftKeep):
        return partial(live.runtime.keep_draft, command.text)
    waiting = live.runtime.state.steers
    if not (waiting.keys() & set(command.ids) if command.ids else waiting):
        raise CommandRejected("nothing waits: the model was sent all that was said.", code="nothing_queued")
    return partial(live.take_back, command.ids)


def _terminal(live: LiveSession, command: TerminalCommand) -> Effect:
    terminal = live.runtime.terminal
    match command:
        case cmd.CommandRun():
            _check_text(command.command, "command")
            if "\0" in command.command:
                raise CommandRejected("the command holds a NUL character.", code="command_invalid")
            return partial(live.run_command, command.command)
        case cmd.JobStop():
            living = [job.id for job in terminal.jobs.alive]
            if command.job and command.job not in living:
                raise CommandRejected(f"no job {command.job!r} runs.", code="job_unknown")
            return partial(_stop_jobs, live, (command.job,) if command.job else tuple(living))
        case cmd.ShellReset():
            return terminal.reset
        case _ as unreachable:
            assert_never(unreachable)


async def _stop_jobs(live: LiveSession, jobs: tuple[str, ...]) -> None:
    for job in jobs:
        await live.runtime.terminal.jobs.end(job)


def _check_text(text: str, what: str) -> None:
    if not text.strip():
        raise CommandRejected(f"the {what} is empty.", code="empty_text")
    if len(text) > MAX_PROMPT:
        raise CommandRejected(
            f"the {what} has {len(text):,} characters; at most {MAX_PROMPT:,} can be sent.",
            hint="Put it into a file and name the file.",
            code="text_too_long",
        )


def _need_turn(live: LiveSession) -> None:
    if not live.turns.running:
        raise CommandRejected("no turn is running.", code="no_turn")


def _approve(live: LiveSession, command: cmd.ApprovalAnswer) -> Effect:
    request = live.runtime.state.approvals.get(command.id)
    whose = live.children.get(request.subagent, live) if request is not None else live
    context = whose.turns.context
    if request is None or context is None:
        raise CommandRejected(f"no approval {command.id!r} is waiting.", code="approval_unknown")
    if command.pattern:
        choice: Choice = "allow" if command.decision == "allow_always" else "deny"
        check_pattern(command.pattern, request.subject, choice)
    if command.decision not in request.options:
        raise CommandRejected(
            f"{command.decision!r} is not offered here.",
            hint=f"Choose one of {', '.join(request.options)}.",
            code="decision_not_offered",
        )

    def approve() -> None:
        context.resolve_approval(command.id, command.decision, command.note, command.pattern)

    return approve


SettingCommand = (
    cmd.SessionRename
    | cmd.ModeSet
    | cmd.ModelSet
    | cmd.EffortSet
    | cmd.LimitsSet
    | cmd.PolicySet
    | cmd.PermissionRemove
)


async def _setting(live: LiveSession, command: SettingCommand) -> Effect:
    runtime = live.runtime
    match command:
        case cmd.LimitsSet() | cmd.PolicySet():
            return bounded(live, command)
        case cmd.PermissionRemove():
            return removed(live, command)
        case cmd.SessionRename():
            _check_text(command.title, "title")
            title = " ".join(command.title.split())[: 2 * TITLE_LENGTH]
            return partial(runtime.emit, SessionRenamed(title=title))
        case cmd.ModeSet():
            return partial(_set_mode, live, command)
        case cmd.EffortSet():
            return partial(_set_effort, live, command)
        case cmd.ModelSet():
            await asyncio.to_thread(live.turns.check_model, command.model)
            return partial(_set_model, live, command.model)
        case _ as unreachable:
            assert_never(unreachable)


def _set_mode(live: LiveSession, command: cmd.ModeSet) -> None:
    if live.runtime.state.mode != command.mode:
        live.runtime.emit(ModeChanged(mode=command.mode))
        live.turns.say_route()


def _set_effort(live: LiveSession, command: cmd.EffortSet) -> None:
    """For the mode at hand alone, where that has an effort of its own."""
    mode = live.runtime.state.mode
    own = live.runtime.settings.mode_of(mode).effort
    live.runtime.emit(EffortChanged(effort=command.effort, mode=mode if own else ""))
    live.turns.say_route()


async def _set_model(live: LiveSession, model: str) -> None:
    """For the mode at hand alone, where that has a model of its own."""
    runtime = live.runtime
    window = runtime.settings.context.window or await asyncio.to_thread(runtime.models.window, model)
    mode = runtime.state.mode
    own = runtime.settings.mode_of(mode).model
    runtime.emit(ModelChanged(model=model, context_window=window, mode=mode if own else ""))
    live.turns.say_route()
    live.turns.preload()
