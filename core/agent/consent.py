"""Whether a call may go on: what the rules say, the user's answer where one is needed, and what that answer binds.

The question is shown from the `Approval` of the call; whoever starts a command makes it anew and compares, so a yes is
a yes to these bytes in this place and mode, once. What the user wants kept is kept exactly, or as they typed it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from core.agent.path_guard import PathGuard
from core.agent.session import SessionContext
from core.errors import AgentTuiError, PathRefused
from core.ids import new_id
from core.modes import Access, Mode
from core.permissions.approval import Approval, digest_of_value
from core.permissions.rules import Choice
from core.policy import Decided, Terms, decide
from core.protocol.events import ApprovalRequested, ApprovalResolved, Decision, Notice
from core.tools.base import Tool
from core.workspace.secret_names import is_secret

ONCE: tuple[Decision, ...] = ("allow_once", "reject_once")
ALL: tuple[Decision, ...] = ("allow_once", "allow_always", "reject_once", "reject_always")
ALLOWING = frozenset({"allow_once", "allow_always", "allow_session"})
UNTRUSTED = "The user has not said that they trust this project, and nothing holds what a command does."
_PATHS = frozenset({Access.READ, Access.PROPOSE})


def approval_of(session: SessionContext, subject: str) -> Approval:
    """What a command would be if it began now."""
    terminal = session.terminal
    shell = terminal.shell
    names = sorted({*shell.variables, *shell.removed})
    values = {name: None if name in shell.removed else value for name, value in shell.variables.items()}
    return Approval(
        subject=subject,
        directory=shell.directory,
        environment=tuple(names),
        values=tuple(digest_of_value(values.get(name)) for name in names),
        tier=terminal.ground.box.tier.value,
        mode=Mode(session.state.mode).value,
        network=session.way_out.hosts(),
    )


def guard_of(session: SessionContext, approved: Sequence[str] = ()) -> PathGuard:
    shadow = session.shadow
    return PathGuard(shadow.ignore, shadow.seen.canonical, session.rules(), frozenset(approved))


def judge(session: SessionContext, access: Access, tool: Tool[object], *, typed: bool = False) -> Decided:
    """What rules and policy say of a call, before anybody is asked. `typed`: the user typed this command."""
    if access in _PATHS:
        return _judge_paths(session, access, named_paths(session, tool))
    if access is Access.EXEC and not session.trusted and not session.contained:
        return Decided(choice="deny", reason=UNTRUSTED)
    policy, tier = session.settings.commands.policy, session.terminal.ground.box.tier
    subject = tool.subject()
    terms = Terms(
        contained=session.contained,
        by_hand=policy == "human" and not typed,
        unasked=policy == "auto" and tier.may_run_unasked,
        directory=session.terminal.shell.directory,
        remembered=session.remembered.choice(approval_of(session, subject)) if access is Access.EXEC else None,
    )
    decided = decide(access, subject, terms, rules=session.rules() if access is Access.EXEC else ())
    return Decided(choice="allow", reason="The user typed it.") if typed and decided.choice == "ask" else decided


def named_paths(session: SessionContext, tool: Tool[object]) -> tuple[str, ...]:
    """The files that a call names, relative to the workspace; what is no path of it the tool itself complains of."""
    found = []
    for path in tool.paths():
        try:
            found.append(session.workspace.relative(path))
        except PathRefused:
            continue
    return tuple(found)


def _judge_paths(session: SessionContext, access: Access, paths: Sequence[str]) -> Decided:
    guard, asked = guard_of(session), Decided(choice="allow")
    for path in paths:
        try:
            decided = guard.judge(access, path)
        except PathRefused:
            continue
        if decided.choice == "deny":
            return Decided(choice="deny", reason=f"{path} is kept from the agent. {decided.reason}")
        asked = decided if decided.choice == "ask" else asked
    return asked


def note_exposure(session: SessionContext, access: Access, tool: Tool[object] | None) -> None:
    """Before a call runs: what it will have shown to the model counts for what may go out later in the turn."""
    if access is Access.EXEC:
        session.way_out.begin_turn(session.turn)
        session.way_out.take_refused()
    elif access is Access.READ and tool is not None:
        ignored = session.shadow.ignore.is_ignored
        if any(is_secret(path, ignored) for path in named_paths(session, tool)):
            session.way_out.begin_turn(session.turn)
            session.way_out.read_secret()


class Consent:
    """The question of one call, and what its answer binds."""

    def __init__(self, session: SessionContext, call: str, access: Access, tool: Tool[object]) -> None:
        self._session = session
        self._call = call
        self._access = access
        self._tool = tool
        self._is_command = access is Access.EXEC
        self.paths = named_paths(session, tool) if access in _PATHS else ()

    async def ask(self, reason: str) -> str:
        """Why the call must not run; "" = the user said yes, to this."""
        before = self._approval()
        resolved = await self._session.approve(self._request(before, reason))
        await self._keep(resolved, before)
        if resolved.decision not in ALLOWING:
            return _refused(resolved)
        if self._approval().digest() != before.digest():
            return "the mode or the place changed after this was asked. Nothing was changed; call again."
        return ""

    def _approval(self) -> Approval:
        if self._is_command:
            return approval_of(self._session, self._tool.subject())
        return Approval(subject=self._tool.subject(), mode=Mode(self._session.state.mode).value)

    def _request(self, approval: Approval, reason: str) -> ApprovalRequested:
        box, reach = self._session.terminal.ground.box, "" if approval.network else "; no network"
        return ApprovalRequested(
            id=new_id("apr"),
            call=self._call,
            kind="command" if self._is_command else "tool",
            subject=approval.subject,
            directory=approval.directory,
            explanation=str(getattr(self._tool, "explanation", "") or ""),
            containment=f"{box.words()}{reach if self._session.contained else ''}" if self._is_command else "",
            options=ALL if self._is_command and self._session.contained else ONCE,
            reason=reason,
            environment=approval.environment,
            network=approval.network,
            mode=self._session.state.mode,
            digest=approval.digest(),
        )

    async def _keep(self, resolved: ApprovalResolved, approval: Approval) -> None:
        """Keep an answer that was given for good; one that can't be kept still holds this time."""
        if resolved.by != "user" or resolved.decision not in {"allow_always", "reject_always"}:
            return
        choice: Choice = "allow" if resolved.decision == "allow_always" else "deny"
        rule = f"Shell({resolved.pattern})" if resolved.pattern else ""
        try:
            await asyncio.to_thread(self._session.remembered.keep, choice, approval, rule=rule)
        except AgentTuiError as problem:
            self._session.emit(Notice(level="warning", message=f"Not kept: {problem.message}", hint=problem.hint))


def _refused(resolved: ApprovalResolved) -> str:
    who = "The user" if resolved.by == "user" else "The program"
    note = f" {resolved.note}" if resolved.note else ""
    return f"{who} refused this call.{note} Nothing was changed."
