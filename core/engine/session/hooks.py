"""The hooks of an open session: which ones run, the state that they receive, and the events that no turn raises.

Hooks are asked before any pending change is accepted, by a verdict of the user or of `-p` or by the policy that accepts
automatically, and are notified of the files written. They run in the box like all others, over what is pending: a
refusal leaves the changes pending, and what a hook changes waits for the review.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from core.agent.base.permissions import CallPermissions
from core.engine.session.recorder import EventRecorder
from core.engine.session.tasks import Effect, SessionTasks
from core.engine.shared.project_trust import ProjectTrust
from core.errors import AgentTuiError
from core.hooks.dialect_names import HookEvent
from core.hooks.hook_files import HookTable, load_hooks
from core.hooks.payload import HookCall, HookScene
from core.hooks.runner import HookRunner
from core.hooks.session_hooks import HookOccasion, SessionHooks
from core.protocol import events as ev
from core.protocol.events import FileWritten
from core.shell.terminal import Terminal
from core.state.session import SessionState
from core.workspace import Workspace

END_LIMIT: Final = 10.0  # seconds for all hooks at the end of a session
USER_TOOL: Final = "run_terminal_cmd"  # the tool name of a user's command for hooks
LEFT_HINT = "It is still pending review. /hooks lists the hooks."


def open_session_hooks(
    terminal: Terminal, permissions: CallPermissions, trust: ProjectTrust, recorder: EventRecorder
) -> SessionHooks:
    """Return the hooks of a session that is being opened. No file is read before the first event."""
    host = terminal.host
    hooks = SessionHooks(
        load=partial(load_trusted_hooks, host.workspace, trust),
        scene=partial(_build_scene, terminal, permissions, recorder),
        runner=HookRunner(host, terminal.keeps_effects, permissions.explain_denied_command),
        emit=host.emit,
    )
    recorder.listeners.append(((ev.ApprovalRequested, ev.QuestionAsked), partial(_notify_waiting, terminal, hooks)))
    return hooks


def load_trusted_hooks(workspace: Workspace, trust: ProjectTrust) -> HookTable:
    """Load the hooks of a project, those that run now and those that do not. Reads files."""
    return load_hooks(workspace, trust.is_readable if trust.trusted else None)


def _build_scene(terminal: Terminal, permissions: CallPermissions, recorder: EventRecorder) -> HookScene:
    """Return the state of the session that hooks receive."""
    host, limits = terminal.host, permissions.subagent_limits
    return HookScene(
        session=host.session_id,
        root=host.workspace.root,
        turn=recorder.turn_id,
        model=host.state.model,
        mode=host.state.mode,
        effort=host.state.model_choices.effort,
        directory=terminal.shell.directory,
        agent=host.session_id if limits is not None else "",
        agent_type=limits.kind if limits is not None else "",
    )


def _notify_waiting(terminal: Terminal, hooks: SessionHooks, event: ev.ApprovalRequested | ev.QuestionAsked) -> None:
    """Notify the hooks, in parallel to the turn, that something waits for the user."""
    if not hooks.has(HookEvent.NOTIFICATION):
        return
    is_approval = isinstance(event, ev.ApprovalRequested)
    kind = "permission_prompt" if is_approval else "elicitation_dialog"
    message = (
        f"Waiting for your approval: {event.subject}"
        if isinstance(event, ev.ApprovalRequested)
        else "You have a question to answer."
    )
    occasion = HookOccasion(
        event=HookEvent.NOTIFICATION,
        fields={"message": message, "notification_type": kind},
        subjects=(kind,),
    )
    terminal.finish_in_background(hooks.run(occasion))


async def report_session_end(hooks: SessionHooks, state: SessionState, reason: str) -> None:
    """Notify the hooks of the end of the session, if they were notified of its start. Never raises."""
    if not hooks.is_begun or not hooks.has(HookEvent.SESSION_END):
        return
    last = state.turns[-1].reason if state.turns else ""
    fields = {
        "reason": "user_close" if last in {"done", ""} else "aborted" if last == "interrupted" else "error",
        "duration_ms": state.updated - state.started,
        "final_status": last or "done",
        "closed_for": reason,
    }
    try:
        async with asyncio.timeout(END_LIMIT):
            await hooks.run(HookOccasion(event=HookEvent.SESSION_END, fields=fields, subjects=("SessionEnd", "other")))
    except TimeoutError:
        return


class AcceptanceRefused(AgentTuiError):
    """A hook refused to have pending changes written to the project; nothing was written."""

    code = "hook_refused"


class PromotionHooks(Struct, eq=False):
    """The hooks of one session's acceptances. `report_error(problem, path=)` reports a refusal to the user; `_written`:
    written files that the hooks are not notified of yet."""

    hooks: SessionHooks
    tasks: SessionTasks
    root: Path
    report_error: Callable[..., None]
    _written: dict[str, None] = field(default_factory=dict)

    def guard(self, list_paths: Callable[[], Sequence[str]], effect: Effect) -> Effect:
        """Wrap an effect that accepts changes: the hooks are asked about their paths first."""

        async def run() -> None:
            if await self._is_allowed(list_paths()) and inspect.isawaitable(result := effect()):
                await result

        return run

    async def _is_allowed(self, paths: Sequence[str]) -> bool:
        if not paths:
            return True
        outcome = await self.hooks.run(self._build_occasion(HookEvent.BEFORE_PROMOTE, paths))
        if (refusal := outcome.describe_refusal()) is not None:
            path = paths[0] if len(paths) == 1 else ""
            self.report_error(AcceptanceRefused(refusal, hint=LEFT_HINT), path=path)
        return refusal is None

    def _build_occasion(self, event: HookEvent, paths: Sequence[str]) -> HookOccasion:
        fields = {"paths": list(paths), "file_paths": [str(self.root / path) for path in paths]}
        return HookOccasion(event=event, fields=fields, subjects=tuple(paths), texts=tuple(paths))

    def accept(self, list_paths: Callable[[], Sequence[str]], accept: Callable[[], object]) -> None:
        """Accept changes by policy: at once, or after asking the hooks if there are any."""
        if self.hooks.has(HookEvent.BEFORE_PROMOTE):
            self.tasks.schedule(self.guard(list_paths, accept))
        else:
            accept()

    def observe(self, event: FileWritten) -> None:
        """Notify the hooks of a file that was written to the project, together with all others of its acceptance."""
        if not self.hooks.has(HookEvent.AFTER_PROMOTE):
            return
        if not self._written:
            self.tasks.schedule(self._report_written)
        self._written[event.path] = None

    async def _report_written(self) -> None:
        paths = list(self._written)
        self._written.clear()
        await self.hooks.run(self._build_occasion(HookEvent.AFTER_PROMOTE, paths))


async def find_hook_refusal(hooks: SessionHooks, command: str, call: str) -> str | None:
    """Return why a hook refuses a command of the user; None: none does. A hook's decision to ask the user counts as
    consent, since the user typed the command."""
    hook_call = HookCall(tool=USER_TOOL, call=call, arguments={"command": command})
    outcome = await hooks.run(HookOccasion(event=HookEvent.BEFORE_SHELL, call=hook_call, subjects=(command,)))
    return outcome.describe_refusal()
