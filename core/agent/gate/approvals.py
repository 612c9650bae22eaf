"""The user's word on calls: the question of a call, what its answer binds, and the two that commands alone have.

A question is shown from the `Approval` of the call; whoever starts a command makes it anew and compares, so a yes is a
yes to these bytes in this place and mode, once. Commands may be left to the user (`human`): the model proposes, the
user types. Network approval is asked for afterwards: the hosts that a command wanted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import cast

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from core.agent.gate.permissions import CallPermissions
from core.agent.turn.user_channel import UserChannel
from core.errors import AgentTuiError
from core.hooks.dialect_names import HookEvent, list_tool_names
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
from core.sandbox.addresses import HostAndPort
from core.sandbox.results import CommandResult
from core.tools.base import Tool
from core.tools.builtin.terminal.run_terminal_cmd import RunTerminalCmd
from core.tools.external import ExternalTool

ONCE_OPTIONS: tuple[ApprovalDecision, ...] = ("allow_once", "reject_once")
ALL_OPTIONS: tuple[ApprovalDecision, ...] = ("allow_once", "allow_always", "reject_once", "reject_always")
TARGET_OPTIONS: tuple[ApprovalDecision, ...] = (
    "allow_once",
    "allow_session",
    "allow_always",
    "reject_once",
    "reject_always",
)
NETWORK_OPTIONS: tuple[ApprovalDecision, ...] = ("allow_once", "allow_session", "allow_always", "reject_once")
ALLOWING_DECISIONS = frozenset({"allow_once", "allow_always", "allow_session"})
LEAVE_BOX = "the user would let it out of the box"
_PROPOSED = "as_proposed"
_MAX_SHOWN = 2_000  # characters of a proposed command


class Approver(Struct, frozen=True):
    """The questions about calls of one session, and what is saved of the answers."""

    user: UserChannel
    permissions: CallPermissions
    emit: Callable[[AnyEvent], None]
    hooks: SessionHooks = field(default_factory=SessionHooks)

    async def ask_for_call(
        self, call: str, access: Access, tool: Tool[object], reason: str, *, can_leave: bool = False
    ) -> str:
        """Ask whether a call may run. Returns why it must not; "" = the user said yes to it.

        `can_leave`: the user is offered to let the command out of the box; for that choice it returns `LEAVE_BOX`.
        """
        if refusal := await self.find_hook_refusal(call, tool):
            return refusal
        before = self._build_approval(access, tool)
        request = self._build_request(call, access, tool, before, reason)
        if can_leave:
            request = replace(request, options=(*request.options, "run_on_machine"))
        resolution = await self.user.approve(request)
        if can_leave and resolution.decision == "run_on_machine":
            return LEAVE_BOX
        if resolution.by == "user" and resolution.decision in {"allow_always", "reject_always"}:
            choice: PermissionChoice = "allow" if resolution.decision == "allow_always" else "deny"
            await self._save(choice, before, [_name_rule(access, before.subject, resolution.pattern)])
        if resolution.decision not in ALLOWING_DECISIONS:
            return _format_refusal(resolution)
        weighed_request, grants = self.permissions.weigh_request(tool), self.permissions.network_grants
        if self._build_approval(access, tool).compute_digest() != before.compute_digest():
            return "the mode or the place changed after this was asked. Nothing was changed; call again."
        if resolution.decision == "allow_session":
            grants.grant(weighed_request.hosts, for_session=True)
            grants.grant_services(weighed_request.services, for_session=True)
        return ""

    async def find_hook_refusal(self, call: str, tool: Tool[object]) -> str:
        """Return why a hook refuses a call that the user is about to be asked about, "" = they are asked: none can say
        yes in their place."""
        if not self.hooks.has(HookEvent.PERMISSION_REQUEST):
            return ""
        raw_arguments = tool.arguments if isinstance(tool, ExternalTool) else msgspec.to_builtins(tool)
        arguments = {name: value for name, value in raw_arguments.items() if value is not None}
        occasion = HookOccasion(
            event=HookEvent.PERMISSION_REQUEST,
            call=HookCall(tool=tool.name, call=call, arguments=arguments),
            subjects=list_tool_names(tool.name),
            texts=(tool.subject(),),
        )
        refusal = (await self.hooks.run(occasion)).describe_refusal()
        return f"{refusal} Nothing was changed." if refusal else ""

    def _build_approval(self, access: Access, tool: Tool[object]) -> Approval:
        if access is Access.EXEC:
            return self.permissions.build_call_approval(tool)
        return Approval(subject=tool.subject(), mode=self.permissions.mode.value)

    def _build_request(
        self, call: str, access: Access, tool: Tool[object], approval: Approval, reason: str
    ) -> ApprovalRequested:
        is_command, is_contained = access is Access.EXEC, self.permissions.terminal.is_contained
        has_targets = bool(self.permissions.weigh_request(tool).targets)
        network = "; no network" if is_contained and not approval.network else ""
        return ApprovalRequested(
            id=new_id("apr"),
            call=call,
            kind="command" if is_command else "tool",
            subject=approval.subject,
            directory=approval.directory,
            explanation=str(getattr(tool, "explanation", "") or ""),
            containment=f"{self.permissions.terminal.host.box.describe()}{network}" if is_command else "",
            options=_list_options(access, tool, is_contained=is_contained, has_targets=has_targets),
            reason=reason,
            environment=approval.environment,
            network=approval.network,
            permissions=approval.permissions,
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
        proposal = tool.command if len(tool.command) <= _MAX_SHOWN else f"{tool.command[:_MAX_SHOWN]} …"
        explanation = f" ({tool.explanation})" if tool.explanation else ""
        question = Question(
            id="command",
            text=f"The agent would run this{explanation}:\n\n{proposal}\n\n"
            "Type the command to run; its output goes to the agent.",
            options=(Option(id=_PROPOSED, label="Run it as proposed"),),
        )
        response = await self.user.ask(QuestionAsked(id=new_id("ask"), call=call, questions=(question,)))
        if not response.answers:
            return None
        answer = response.answers[0]
        if answer.text.strip():
            return replace(tool, command=answer.text.strip())
        return tool if _PROPOSED in answer.options else None

    async def ask_for_network(
        self, call: str, command: str, targets: Sequence[HostAndPort], *, is_ahead: bool = False
    ) -> bool:
        """Ask whether a command may reach hosts, and grant them. True: run it again. `is_ahead`: it is no command that
        has run, but something of the program's that has sent nothing yet."""
        grants, hosts = self.permissions.network_grants, tuple(dict.fromkeys(target.host for target in targets))
        rules = [f"WebFetch({host})" for host in hosts]
        subject = "\n".join(map(str, targets))
        decision = await self._ask_for_targets(call, command, subject, hosts, rules, is_ahead=is_ahead)
        if decision not in ALLOWING_DECISIONS:
            return False
        grants.grant(hosts, for_session=decision == "allow_session")
        grants.grant(hosts, for_session=False)
        return True

    async def ask_for_service(self, call: str, wanted_by: str, service: str) -> bool:
        """Ask whether a service of the machine may be reached, and grant it to the session."""
        decision = await self._ask_for_targets(
            call, wanted_by, service, (service,), [f"Service({service})"], is_ahead=True
        )
        if decision not in ALLOWING_DECISIONS:
            return False
        self.permissions.network_grants.grant_services((service,), for_session=True)
        return True

    async def _ask_for_targets(
        self,
        call: str,
        wanted_by: str,
        subject: str,
        names: tuple[str, ...],
        rules: Sequence[str],
        *,
        is_ahead: bool,
    ) -> ApprovalDecision:
        """Ask about targets that something wants to reach; a yes for good is kept as `rules`."""
        approval = self.permissions.build_approval(wanted_by)
        request = ApprovalRequested(
            id=new_id("apr"),
            call=call,
            kind="host" if is_ahead else "network",
            subject=subject,
            directory=approval.directory,
            reason=self.permissions.network_grants.explain_caution(),
            containment=f"wanted by: {wanted_by}",
            options=NETWORK_OPTIONS,
            network=names,
            mode=approval.mode,
            digest=approval.compute_digest(),
        )
        decision = (await self.user.approve(request)).decision
        if decision == "allow_always":
            await self._save("allow", approval, rules)
        return decision

    async def find_refusal(self, call: str, tool: RunTerminalCmd) -> str:
        """Return why a command that another call needs must not run; "" = it may. Decided like any command."""
        permissions = self.permissions
        await permissions.terminal.find_box()
        if not permissions.is_granted(Access.EXEC):
            return f"{permissions.mode.value} mode runs no commands here."
        is_typed = False
        if permissions.settings.commands.policy == "human":
            agreed_tool = await self.ask_for_command(call, tool)
            if agreed_tool is None or agreed_tool.command != tool.command:
                return "the user did not run it."
            is_typed = True
        generic_tool = cast("Tool[object]", tool)
        decision = permissions.decide(Access.EXEC, generic_tool, is_typed=is_typed)
        if decision.choice == "deny":
            return decision.reason
        if decision.choice == "ask" and (
            refusal := await self.ask_for_call(call, Access.EXEC, generic_tool, decision.reason)
        ):
            return refusal
        if not permissions.is_granted(Access.EXEC):
            return "the mode changed meanwhile."
        hook_call = HookCall(tool=tool.name, call=call, arguments={"command": tool.command})
        occasion = HookOccasion(event=HookEvent.BEFORE_SHELL, call=hook_call, subjects=(tool.command,))
        return (await self.hooks.run(occasion)).describe_refusal()

    async def report_command(self, call: str, tool: RunTerminalCmd, result: CommandResult) -> None:
        """Tell the hooks of a command that another call needed and that has run."""
        hook_call = HookCall(
            tool=tool.name,
            call=call,
            arguments={"command": tool.command},
            result=result.output,
            duration_ms=result.duration_ms,
        )
        await self.hooks.run(HookOccasion(event=HookEvent.AFTER_SHELL, call=hook_call, subjects=(tool.command,)))


def _list_options(
    access: Access, tool: object, *, is_contained: bool, has_targets: bool
) -> tuple[ApprovalDecision, ...]:
    if isinstance(tool, ExternalTool):
        return ONCE_OPTIONS if tool.must_ask or "*" in tool.target else ALL_OPTIONS
    if has_targets:
        return TARGET_OPTIONS
    return ALL_OPTIONS if access is Access.EXEC and is_contained else ONCE_OPTIONS


def _name_rule(access: Access, subject: str, pattern: str) -> str:
    """Return the rule that an answer for good is kept as; "" = it holds for exactly what was asked."""
    if access is Access.EXTERNAL:
        return f"Mcp({subject})"
    return f"Shell({pattern})" if pattern else ""


def _format_refusal(resolution: ApprovalResolved) -> str:
    who = "The user" if resolution.by == "user" else "The program"
    note = f" {resolution.note}" if resolution.note else ""
    return f"{who} refused this call.{note} Nothing was changed."
