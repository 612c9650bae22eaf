"""The hooks of an open session: whose they are, what is trusted of them, and what they are told beside turns."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

from core.agent.base.permissions import CallPermissions
from core.engine.project_trust import ProjectTrust
from core.engine.session.recorder import EventRecorder
from core.hooks.events import HookEvent
from core.hooks.payload import HookScene
from core.hooks.places import HookTable, load_hooks
from core.hooks.runner import HookRunner
from core.hooks.session_hooks import HookOccasion, SessionHooks
from core.modes import Access
from core.permissions.policy import CommandTerms, decide_call
from core.protocol import events as ev
from core.shell.terminal import Terminal
from core.state.session import SessionState
from core.workspace import Workspace

END_LIMIT: Final = 10.0  # seconds that all hooks have at the end of a session


def open_session_hooks(
    terminal: Terminal, permissions: CallPermissions, trust: ProjectTrust, recorder: EventRecorder
) -> SessionHooks:
    """Return the hooks of a session that is being opened; no file is read before its first event."""
    host = terminal.host
    hooks = SessionHooks(
        load=partial(load_trusted_hooks, host.workspace, trust),
        scene=partial(_build_scene, terminal, permissions, recorder),
        runner=HookRunner(host, terminal.keeps_effects, partial(_find_refusal, permissions)),
        emit=host.emit,
    )
    recorder.listeners.append(((ev.ApprovalRequested, ev.QuestionAsked), partial(_notify_waiting, terminal, hooks)))
    return hooks


def load_trusted_hooks(workspace: Workspace, trust: ProjectTrust) -> HookTable:
    """Load the hooks that run in a project now, and those of it that do not. Reads files."""
    return load_hooks(workspace, trust.is_readable if trust.trusted else None)


def _build_scene(terminal: Terminal, permissions: CallPermissions, recorder: EventRecorder) -> HookScene:
    """Return the session as it is now, as its hooks are told of it."""
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


def _find_refusal(permissions: CallPermissions, command: str) -> str:
    """Return why a rule of the user's forbids a hook's command, "" = none does."""
    terms = CommandTerms(is_contained=True, is_unasked=True)
    decision = decide_call(Access.EXEC, command, terms, rules=permissions.load_rules())
    return decision.reason if decision.choice == "deny" else ""


def _notify_waiting(terminal: Terminal, hooks: SessionHooks, event: ev.ApprovalRequested | ev.QuestionAsked) -> None:
    """Tell the hooks, beside the turn, that something waits for the user."""
    if not hooks.has(HookEvent.NOTIFICATION):
        return
    is_approval = isinstance(event, ev.ApprovalRequested)
    kind = "permission_prompt" if is_approval else "elicitation_dialog"
    message = (
        f"Waiting for your yes: {event.subject}" if isinstance(event, ev.ApprovalRequested) else "A question waits."
    )
    occasion = HookOccasion(
        event=HookEvent.NOTIFICATION,
        fields={"message": message, "notification_type": kind},
        subjects=(kind,),
    )
    terminal.finish_in_background(hooks.run(occasion))


async def report_session_end(hooks: SessionHooks, state: SessionState, reason: str) -> None:
    """Tell the hooks that the session ends, if they were told that it begins. Nothing is raised."""
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
