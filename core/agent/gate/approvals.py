"""The user's word on calls: the question of a call, what its answer binds, and the two that commands alone have.

A question is shown from the `Approval` of the call; whoever starts a command makes it anew and compares, so a yes is a
yes to these bytes in this place and mode, once. Commands may be left to the user (`human`): the model proposes, the
user types. Network approval is asked for afterwards: the hosts that a command wanted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import cast

from msgspec import Struct, field
from msgspec.structs import replace

from core.agent.gate.permissions import CallPermissions
from core.agent.turn.user_channel import UserChannel
from core.errors import AgentTuiError
from core.hooks.events import HookEvent
from core.hooks.payload import HookCall
from core.hooks.session_hooks import HookOccasion, SessionHooks
from core.ids import new_id
from core.modes import Access
from core.permissions.approval import Approval
from core.permissions.rules import PermissionChoice
from core.protocol.documents import Option, Question
from core.protocol.events import (
    AnyEvent,
    ApprovalDecision,
    ApprovalRequested,
    ApprovalResolved,
    Notice,
    QuestionAsked,
)
from core.sandbox.network.addresses import HostAndPort
from core.tools.base import Tool
from core.tools.builtin.terminal.run_terminal_cmd import RunTerminalCmd
from core.tools.external import ExternalTool

ONCE_OPTIONS: tuple[ApprovalDecision, ...] = ("allow_once", "reject_once")
ALL_OPTIONS: tuple[ApprovalDecision, ...] = ("allow_once", "allow_always", "reject_once", "reject_always")
NETWORK_OPTIONS: tuple[ApprovalDecision, ...] = ("allow_once", "allow_session", "allow_always", "reject_once")
ALLOWING_DECISIONS = frozenset({"allow_once", "allow_always", "allow_session"})
_PROPOSED = "as_proposed"
_MAX_SHOWN = 2_000  # characters of a proposed command


class Approver(Struct, frozen=True):
    """The questions about calls of one session, and what is saved of the answers."""

    user: UserChannel
    permissions: CallPermissions
    emit: Callable[[AnyEvent], None]
    hooks: SessionHooks = field(default_factory=SessionHooks)

    async def ask_for_call(self, call: str, access: Access, tool: Tool[object], reason: str) -> str:
        """Ask whether a call may run. Returns why it must not; "" = the user said yes to it."""
        before = self._build_approval(access, tool)
        resolved = await self.user.approve(self._build_request(call, access, tool, before, reason))
        if resolved.by == "user" and resolved.decision in {"allow_always", "reject_always"}:
            choice: PermissionChoice = "allow" if resolved.decision == "allow_always" else "deny"
            await self._save(choice, before, [_name_rule(access, before.subject, resolved.pattern)])
        if resolved.decision not in ALLOWING_DECISIONS:
            return _format_refusal(resolved)
        if self._build_approval(access, tool).compute_digest() != before.compute_digest():
            return "the mode or the place changed after this was asked. Nothing was changed; call again."
        return ""

    def _build_approval(self, access: Access, tool: Tool[object]) -> Approval:
        if access is Access.EXEC:
            return self.permissions.build_approval(tool.subject())
        return Approval(subject=tool.subject(), mode=self.permissions.mode.value)

    def _build_request(
        self, call: str, access: Access, tool: Tool[object], approval: Approval, reason: str
    ) -> ApprovalRequested:
        is_command, is_contained = access is Access.EXEC, self.permissions.terminal.is_contained
        network = "; no network" if is_contained and not approval.network else ""
        return ApprovalRequested(
            id=new_id("apr"),
            call=call,
            kind="command" if is_command else "tool",
            subject=approval.subject,
            directory=approval.directory,
            explanation=str(getattr(tool, "explanation", "") or ""),
            containment=f"{self.permissions.terminal.host.box.describe()}{network}" if is_command else "",
            options=_list_options(access, tool, is_contained=is_contained),
            reason=reason,
            environment=approval.environment,
            network=approval.network,
            mode=self.permissions.mode.value,
            digest=approval.compute_digest(),
        )

    async def _save(self, choice: PermissionChoice, approval: Approval, rules: Sequence[str]) -> None:
        """Save an answer that was given for good; one that can't be saved still holds this time."""
        try:
            for rule in rules:
                await asyncio.to_thread(self.permissions.saved_rules.save, choice, approval, rule=rule)
        except AgentTuiError as problem:
            self.emit(Notice(level="warning", message=f"Not kept: {problem.message}", hint=problem.hint))

    async def ask_for_command(self, call: str, tool: RunTerminalCmd) -> RunTerminalCmd | None:
        """Ask the user for the command to run and return the call with it. None: no answer, or nobody to ask."""
        if not self.user.is_interactive:
            return None
        proposed = tool.command if len(tool.command) <= _MAX_SHOWN else f"{tool.command[:_MAX_SHOWN]} …"
        why = f" ({tool.explanation})" if tool.explanation else ""
        question = Question(
            id="command",
            text=f"The agent would run this{why}:\n\n{proposed}\n\n"
            "Type the command to run; its output goes to the agent.",
            options=(Option(id=_PROPOSED, label="Run it as proposed"),),
        )
        answered = await self.user.ask(QuestionAsked(id=new_id("ask"), call=call, questions=(question,)))
        if not answered.answers:
            return None
        answer = answered.answers[0]
        if answer.text.strip():
            return replace(tool, command=answer.text.strip())
        return tool if _PROPOSED in answer.options else None

    async def ask_for_network(self, call: str, command: str, targets: Sequence[HostAndPort]) -> bool:
        """Ask whether a command may reach hosts, and grant them. True: run it again."""
        grants = self.permissions.network_grants
        hosts = tuple(dict.fromkeys(each.host for each in targets))
        approval = self.permissions.build_approval(command)
        why = grants.explain_caution()
        request = ApprovalRequested(
            id=new_id("apr"),
            call=call,
            kind="network",
            subject="\n".join(map(str, targets)),
            directory=approval.directory,
            reason=why,
            containment=f"wanted by: {command}",
            options=NETWORK_OPTIONS,
            network=hosts,
            mode=approval.mode,
            digest=approval.compute_digest(),
        )
        resolved = await self.user.approve(request)
        if resolved.decision not in ALLOWING_DECISIONS:
            return False
        grants.grant(hosts, for_session=resolved.decision == "allow_session")
        grants.grant(hosts, for_session=False)
        if resolved.decision == "allow_always":
            await self._save("allow", approval, [f"WebFetch({host})" for host in hosts])
        return True

    async def find_refusal(self, call: str, tool: RunTerminalCmd) -> str:
        """Return why a command that another call needs must not run; "" = it may. Decided like any command."""
        permissions = self.permissions
        await permissions.terminal.find_box()
        if not permissions.is_granted(Access.EXEC):
            return f"{permissions.mode.value} mode runs no commands here."
        is_typed = False
        if permissions.settings.commands.policy == "human":
            found = await self.ask_for_command(call, tool)
            if found is None or found.command != tool.command:
                return "the user did not run it."
            is_typed = True
        checked = cast("Tool[object]", tool)
        decided = permissions.decide(Access.EXEC, checked, is_typed=is_typed)
        if decided.choice == "deny":
            return decided.reason
        if decided.choice == "ask" and (refused := await self.ask_for_call(call, Access.EXEC, checked, decided.reason)):
            return refused
        if not permissions.is_granted(Access.EXEC):
            return "the mode changed meanwhile."
        about = HookCall(tool=tool.name, call=call, arguments={"command": tool.command})
        occasion = HookOccasion(event=HookEvent.BEFORE_SHELL, call=about, subjects=(tool.command,))
        return (await self.hooks.run(occasion)).describe_refusal()


def _list_options(access: Access, tool: object, *, is_contained: bool) -> tuple[ApprovalDecision, ...]:
    if isinstance(tool, ExternalTool):
        return ONCE_OPTIONS if tool.must_ask or "*" in tool.target else ALL_OPTIONS
    return ALL_OPTIONS if access is Access.EXEC and is_contained else ONCE_OPTIONS


def _name_rule(access: Access, subject: str, pattern: str) -> str:
    """Return the rule that an answer for good is kept as; "" = it holds for exactly what was asked."""
    if access is Access.EXTERNAL:
        return f"Mcp({subject})"
    return f"Shell({pattern})" if pattern else ""


def _format_refusal(resolved: ApprovalResolved) -> str:
    who = "The user" if resolved.by == "user" else "The program"
    note = f" {resolved.note}" if resolved.note else ""
    return f"{who} refused this call.{note} Nothing was changed."
