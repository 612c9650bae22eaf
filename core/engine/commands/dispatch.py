"""The commands of a session: each is checked first, against the state as it is, and carried out after the answer.

`prepare_command` raises `AgentTuiError` for a command that can't be carried out, else returns its effect.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import assert_never

from core.engine.commands.attachments import check_model_accepts, prepare_attachment_effect, prepend_labels
from core.engine.commands.checkpoints import prepare_checkpoint_restore
from core.engine.commands.limits import check_prompt_allowed, prepare_limits_change
from core.engine.commands.plans import prepare_plan_command
from core.engine.commands.replies import prepare_question_reply
from core.engine.commands.review import ReviewCommand, prepare_comments_send, prepare_review_command
from core.engine.queries.permissions import prepare_permission_removal
from core.engine.session.live_session import Effect, LiveSession
from core.engine.session.session import TITLE_LENGTH
from core.errors import CommandRejected
from core.permissions.policy import check_pattern
from core.permissions.rules import PermissionChoice
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


async def prepare_command(live: LiveSession, command: SessionCommand) -> Effect:
    """Check a command and return its effect. Raises what `Reject` is to say."""
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
            return await _prepare_turn_command(live, command)
        case cmd.ApprovalAnswer() | cmd.QuestionReply():
            return (
                _prepare_approval(live, command)
                if isinstance(command, cmd.ApprovalAnswer)
                else prepare_question_reply(live, command)
            )
        case cmd.CommentsSend():
            return await prepare_comments_send(live, command)
        case (
            cmd.HunkResolve()
            | cmd.HunkSplit()
            | cmd.HunkEdit()
            | cmd.HunkComment()
            | cmd.ConflictResolve()
            | cmd.BulkResolve()
            | cmd.VerdictUndo()
            | cmd.CheckpointRestore()
        ):
            return _prepare_review(live, command)
        case cmd.PlanEdit() | cmd.PlanComment() | cmd.PlanBuild() | cmd.TodoSet():
            return await prepare_plan_command(live, command)
        case _:
            return await _prepare_setting(live, command)


def _prepare_review(live: LiveSession, command: ReviewCommand | cmd.CheckpointRestore) -> Effect:
    return (
        prepare_checkpoint_restore(live, command)
        if isinstance(command, cmd.CheckpointRestore)
        else prepare_review_command(live, command)
    )


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


async def _prepare_turn_command(live: LiveSession, command: TurnCommand | TerminalCommand) -> Effect:
    turns = live.turns
    match command:
        case cmd.AttachmentAdd() | cmd.TurnSteer() | cmd.TurnUnsteer() | cmd.DraftKeep():
            return await _prepare_side_command(live, command)
        case cmd.TurnSubmit():
            check_prompt_allowed(live.runtime, command)
            text = prepend_labels(command.text, command.attachments, live.runtime)
            _check_text(text, "prompt")
            await check_model_accepts(live, text)
            await turns.reserve()
            return partial(turns.start, text, command.open_files)
        case cmd.TurnInterrupt():
            if not turns.is_running and live.has_running_commands:
                return live.stop_commands
            _check_turn_running(live)
            turns.is_stopping = True
            return turns.interrupt
        case cmd.ContextCompact():
            if not live.runtime.state.messages:
                raise CommandRejected("there is nothing to compact yet.", code="nothing_to_compact")
            await turns.reserve()
            return turns.start_compaction
        case cmd.CommandRun() | cmd.JobStop() | cmd.ShellReset():
            return _prepare_terminal_command(live, command)
        case _ as unreachable:
            assert_never(unreachable)


async def _prepare_side_command(
    live: LiveSession, command: cmd.AttachmentAdd | cmd.TurnSteer | cmd.TurnUnsteer | cmd.DraftKeep
) -> Effect:
    """Prepare a command that starts no turn and may come while one runs."""
    match command:
        case cmd.AttachmentAdd():
            return await prepare_attachment_effect(live, command)
        case cmd.TurnSteer():
            return await _prepare_steer(live, command)
        case _:
            return _prepare_unsteer(live, command)


async def _prepare_steer(live: LiveSession, command: cmd.TurnSteer) -> Effect:
    text = prepend_labels(command.text, command.attachments, live.runtime)
    _check_text(text, "message")
    await check_model_accepts(live, text)
    _check_turn_running(live)
    if live.turns.is_stopping:
        raise CommandRejected("the turn is being stopped.", hint="Send it as a prompt.", code="turn_stopping")
    return partial(live.steer, text)


def _prepare_unsteer(live: LiveSession, command: cmd.TurnUnsteer | cmd.DraftKeep) -> Effect:
    """Prepare giving back a message that was not sent, or saving the draft."""
    if isinstance(command, cmd.DraftKeep):
        return partial(live.runtime.save_draft, command.text)
    waiting = live.runtime.state.pending_steers
    if not (waiting.keys() & set(command.ids) if command.ids else waiting):
        raise CommandRejected("nothing waits: the model was sent all that was said.", code="nothing_queued")
    return partial(live.return_steers, command.ids)


def _prepare_terminal_command(live: LiveSession, command: TerminalCommand) -> Effect:
    terminal = live.runtime.terminal
    match command:
        case cmd.CommandRun():
            _check_text(command.command, "command")
            if "\0" in command.command:
                raise CommandRejected("the command holds a NUL character.", code="command_invalid")
            return partial(live.run_command, command.command)
        case cmd.JobStop():
            living = [job.id for job in terminal.jobs.running_jobs]
            if command.job and command.job not in living:
                raise CommandRejected(f"no job {command.job!r} runs.", code="job_unknown")
            return partial(_stop_jobs, live, (command.job,) if command.job else tuple(living))
        case cmd.ShellReset():
            return terminal.reset_shell
        case _ as unreachable:
            assert_never(unreachable)


async def _stop_jobs(live: LiveSession, jobs: tuple[str, ...]) -> None:
    """Stop background jobs by id."""
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


def _check_turn_running(live: LiveSession) -> None:
    if not live.turns.is_running:
        raise CommandRejected("no turn is running.", code="no_turn")


def _prepare_approval(live: LiveSession, command: cmd.ApprovalAnswer) -> Effect:
    request = live.runtime.state.approvals.get(command.id)
    whose = live.children.get(request.subagent, live) if request is not None else live
    context = whose.turns.context
    if request is None or context is None:
        raise CommandRejected(f"no approval {command.id!r} is waiting.", code="approval_unknown")
    if command.pattern:
        choice: PermissionChoice = "allow" if command.decision == "allow_always" else "deny"
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


async def _prepare_setting(live: LiveSession, command: SettingCommand) -> Effect:
    runtime = live.runtime
    match command:
        case cmd.LimitsSet() | cmd.PolicySet():
            return prepare_limits_change(live, command)
        case cmd.PermissionRemove():
            return prepare_permission_removal(live, command)
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
        live.turns.announce_route()


def _set_effort(live: LiveSession, command: cmd.EffortSet) -> None:
    """Set the effort, for the current mode alone if that has an effort of its own."""
    mode = live.runtime.state.mode
    own = live.runtime.settings.get_mode_settings(mode).effort
    live.runtime.emit(EffortChanged(effort=command.effort, mode=mode if own else ""))
    live.turns.announce_route()


async def _set_model(live: LiveSession, model: str) -> None:
    """Set the model, for the current mode alone if that has a model of its own."""
    runtime = live.runtime
    window = runtime.settings.context.window or await asyncio.to_thread(runtime.models.window, model)
    mode = runtime.state.mode
    own = runtime.settings.get_mode_settings(mode).model
    runtime.emit(ModelChanged(model=model, context_window=window, mode=mode if own else ""))
    live.turns.announce_route()
    live.turns.preload()
