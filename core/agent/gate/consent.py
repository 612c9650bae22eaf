"""Decisions on calls: what the rules say, the user's answer where one is needed, and what that answer binds.

The question is shown from the `Approval` of the call; whoever starts a command makes it anew and compares, so a yes is
a yes to these bytes in this place and mode, once. What the user wants saved is saved exactly, or as they typed it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from core.agent.gate.path_guard import PathGuard
from core.agent.turn.turn_context import TurnContext
from core.errors import AgentTuiError, PathRefused
from core.ids import new_id
from core.modes import Access, Mode
from core.permissions.approval import Approval, hash_value
from core.permissions.policy import CommandTerms, PolicyDecision, decide_call
from core.permissions.rules import PermissionChoice
from core.protocol.events import ApprovalDecision, ApprovalRequested, ApprovalResolved, Notice
from core.tools.base import Tool
from core.workspace.secret_names import is_secret

ONCE_OPTIONS: tuple[ApprovalDecision, ...] = ("allow_once", "reject_once")
ALL_OPTIONS: tuple[ApprovalDecision, ...] = ("allow_once", "allow_always", "reject_once", "reject_always")
ALLOWING_DECISIONS = frozenset({"allow_once", "allow_always", "allow_session"})
UNTRUSTED = "The user has not said that they trust this project, and nothing holds what a command does."
_PATH_ACCESSES = frozenset({Access.READ, Access.PROPOSE})


def build_approval(session: TurnContext, subject: str) -> Approval:
    """Build the approval that a command would need if it began now."""
    terminal = session.terminal
    shell = terminal.shell
    names = sorted({*shell.variables, *shell.removed})
    values = {name: None if name in shell.removed else value for name, value in shell.variables.items()}
    return Approval(
        subject=subject,
        directory=shell.directory,
        environment=tuple(names),
        values=tuple(hash_value(values.get(name)) for name in names),
        tier=terminal.host.box.tier.value,
        mode=Mode(session.state.mode).value,
        network=session.network_grants.list_hosts(),
    )


def build_path_guard(session: TurnContext, approved: Sequence[str] = ()) -> PathGuard:
    """Build the guard of the session's paths; `approved`: those that the user said yes to."""
    shadow = session.shadow
    return PathGuard(shadow.ignore, shadow.merged_tree.resolve_links, session.rules(), frozenset(approved))


def decide_on_call(
    session: TurnContext, access: Access, tool: Tool[object], *, is_typed: bool = False
) -> PolicyDecision:
    """Decide on a call by rules and policy, before anybody is asked. `is_typed`: the user typed this command."""
    if access in _PATH_ACCESSES:
        return _decide_paths(session, access, list_named_paths(session, tool))
    if access is Access.EXEC and not session.is_trusted and not session.is_contained:
        return PolicyDecision(choice="deny", reason=UNTRUSTED)
    policy, tier = session.settings.commands.policy, session.terminal.host.box.tier
    subject = tool.subject()
    terms = CommandTerms(
        is_contained=session.is_contained,
        is_manual=policy == "human" and not is_typed,
        is_unasked=policy == "auto" and tier.can_run_unasked,
        directory=session.terminal.shell.directory,
        saved_choice=session.saved_rules.find_choice(build_approval(session, subject))
        if access is Access.EXEC
        else None,
    )
    decided = decide_call(access, subject, terms, rules=session.rules() if access is Access.EXEC else ())
    return (
        PolicyDecision(choice="allow", reason="The user typed it.") if is_typed and decided.choice == "ask" else decided
    )


def list_named_paths(session: TurnContext, tool: Tool[object]) -> tuple[str, ...]:
    """Return the workspace-relative files that a call names; the tool itself reports what is no path of it."""
    found = []
    for path in tool.paths():
        try:
            found.append(session.workspace.to_relative(path))
        except PathRefused:
            continue
    return tuple(found)


def _decide_paths(session: TurnContext, access: Access, paths: Sequence[str]) -> PolicyDecision:
    guard, asked = build_path_guard(session), PolicyDecision(choice="allow")
    for path in paths:
        try:
            decided = guard.decide(access, path)
        except PathRefused:
            continue
        if decided.choice == "deny":
            return PolicyDecision(choice="deny", reason=f"{path} is kept from the agent. {decided.reason}")
        asked = decided if decided.choice == "ask" else asked
    return asked


def record_exposure(session: TurnContext, access: Access, tool: Tool[object] | None) -> None:
    """Record, before a call runs, what it will show to the model: it counts for what may go out later in the turn."""
    if access is Access.EXEC:
        session.network_grants.begin_turn(session.turn_id)
        session.network_grants.take_refused()
    elif access is Access.READ and tool is not None:
        ignored = session.shadow.ignore.is_ignored
        if any(is_secret(path, ignored) for path in list_named_paths(session, tool)):
            session.network_grants.begin_turn(session.turn_id)
            session.network_grants.record_secret_read()


class Consent:
    """The question of one call, and what its answer binds."""

    def __init__(self, session: TurnContext, call: str, access: Access, tool: Tool[object]) -> None:
        self._session = session
        self._call = call
        self._access = access
        self._tool = tool
        self._is_command = access is Access.EXEC
        self.paths = list_named_paths(session, tool) if access in _PATH_ACCESSES else ()

    async def ask(self, reason: str) -> str:
        """Ask the user. Returns why the call must not run; "" = they said yes to it."""
        before = self._build_approval()
        resolved = await self._session.approve(self._build_request(before, reason))
        await self._save_answer(resolved, before)
        if resolved.decision not in ALLOWING_DECISIONS:
            return _format_refusal(resolved)
        if self._build_approval().compute_digest() != before.compute_digest():
            return "the mode or the place changed after this was asked. Nothing was changed; call again."
        return ""

    def _build_approval(self) -> Approval:
        if self._is_command:
            return build_approval(self._session, self._tool.subject())
        return Approval(subject=self._tool.subject(), mode=Mode(self._session.state.mode).value)

    def _build_request(self, approval: Approval, reason: str) -> ApprovalRequested:
        box, reach = self._session.terminal.host.box, "" if approval.network else "; no network"
        return ApprovalRequested(
            id=new_id("apr"),
            call=self._call,
            kind="command" if self._is_command else "tool",
            subject=approval.subject,
            directory=approval.directory,
            explanation=str(getattr(self._tool, "explanation", "") or ""),
            containment=f"{box.words()}{reach if self._session.is_contained else ''}" if self._is_command else "",
            options=ALL_OPTIONS if self._is_command and self._session.is_contained else ONCE_OPTIONS,
            reason=reason,
            environment=approval.environment,
            network=approval.network,
            mode=self._session.state.mode,
            digest=approval.compute_digest(),
        )

    async def _save_answer(self, resolved: ApprovalResolved, approval: Approval) -> None:
        """Save an answer that was given for good; one that can't be saved still holds this time."""
        if resolved.by != "user" or resolved.decision not in {"allow_always", "reject_always"}:
            return
        choice: PermissionChoice = "allow" if resolved.decision == "allow_always" else "deny"
        rule = f"Shell({resolved.pattern})" if resolved.pattern else ""
        try:
            await asyncio.to_thread(self._session.saved_rules.save, choice, approval, rule=rule)
        except AgentTuiError as problem:
            self._session.emit(Notice(level="warning", message=f"Not kept: {problem.message}", hint=problem.hint))


def _format_refusal(resolved: ApprovalResolved) -> str:
    who = "The user" if resolved.by == "user" else "The program"
    note = f" {resolved.note}" if resolved.note else ""
    return f"{who} refused this call.{note} Nothing was changed."
