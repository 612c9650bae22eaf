"""Requests of a hosted agent while its turn runs: leave for a tool call.

Whatever it does lands in its layer, so a call that only reads or edits needs nobody's leave. A command is decided as
one of ours would be, by the user's rules and policy; whatever else it asks about the user decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from core.acp.connection import INVALID_PARAMS, METHOD_NOT_FOUND, AcpError
from core.agent.context.turn_context import TurnContext
from core.engine.hosted.updates import HostedCall, UpdateReader
from core.ids import new_id
from core.modes import Access
from core.permissions.policy import PolicyDecision
from core.protocol.events import ApprovalDecision, ApprovalRequested
from core.tools.base import Tool
from core.tools.builtin.terminal.run_terminal_cmd import RunTerminalCmd

_HARMLESS: Final = frozenset({"read", "search", "think", "edit", "delete", "move"})
_DECISIONS: Final[tuple[ApprovalDecision, ...]] = ("allow_once", "allow_always", "reject_once", "reject_always")
_CANCELLED: Final = {"outcome": {"outcome": "cancelled"}}


class AgentRequests:
    """The answers to one agent's requests. `agent`: its name."""

    def __init__(self, agent: str, context: TurnContext, reader: UpdateReader) -> None:
        self._agent, self._context, self._reader = agent, context, reader

    async def answer(self, method: str, params: Mapping[str, Any]) -> Any:
        """Return the result of a request. Raises `AcpError`."""
        if method == "session/request_permission":
            return await self._answer_permission(params)
        raise AcpError(f"{method} is not offered here", number=METHOD_NOT_FOUND)

    async def _answer_permission(self, params: Mapping[str, Any]) -> Any:
        tool_call, options = params.get("toolCall"), _read_options(params)
        if not isinstance(tool_call, dict) or not options:
            raise AcpError("a request for permission needs a toolCall and options", number=INVALID_PARAMS)
        call = self._reader.describe_call(tool_call)
        if call is None:
            raise AcpError("the toolCall has no toolCallId", number=INVALID_PARAMS)
        policy_decision, call.was_asked = self._decide(call), True
        call.is_refused = policy_decision.choice == "deny"
        if policy_decision.choice == "allow" and "allow_once" in options:
            return _select(options["allow_once"])
        if policy_decision.choice == "deny":
            return _select(options["reject_once"]) if "reject_once" in options else _CANCELLED
        decision, by_user = await self._ask_user(call, policy_decision.reason, options)
        call.is_refused = not by_user or decision.startswith("reject")
        # Nobody's answer is no refusal: the agent learns that the request was not answered.
        return _select(options[decision]) if by_user and decision in options else _CANCELLED

    def find_breach(self, update: Mapping[str, Any]) -> str:
        """Return the words for a command that an update says to run, that the agent did not ask about and that the
        user's rules deny; "" = it is none."""
        call = self._reader.calls.get(str(update.get("toolCallId")))
        if call is None or call.was_asked or call.kind != "execute" or call.status not in {"in_progress", "completed"}:
            return ""
        policy_decision = self._decide(call)
        if policy_decision.choice != "deny":
            return ""
        call.is_refused = True
        return (
            f"{self._agent} ran a command without asking, and was ended: {call.command[:300]}\n{policy_decision.reason}"
        )

    def _decide(self, call: HostedCall) -> PolicyDecision:
        """Decide on a call before anybody is asked."""
        if call.kind in _HARMLESS:
            return PolicyDecision(choice="allow")
        if call.kind == "execute" and call.command:
            command = cast("Tool[object]", RunTerminalCmd(command=call.command))
            return self._context.permissions.decide(Access.EXEC, command)
        return PolicyDecision(choice="ask", reason=f"{self._agent} asks before it does this.")

    async def _ask_user(
        self, call: HostedCall, reason: str, options: Mapping[ApprovalDecision, str]
    ) -> tuple[ApprovalDecision, bool]:
        is_command = call.kind == "execute" and bool(call.command)
        approval = await self._context.user.approve(
            ApprovalRequested(
                id=new_id("apr"),
                call=call.id,
                kind="command" if is_command else "tool",
                subject=call.command if is_command else call.title,
                containment=f"in the box of {self._agent}, over the shadow",
                options=tuple(decision for decision in _DECISIONS if decision in options),
                reason=reason,
                mode=self._context.state.mode,
            )
        )
        return approval.decision, approval.by == "user"


def _read_options(params: Mapping[str, Any]) -> dict[ApprovalDecision, str]:
    """Return the ids of the offered options by their kind, the first of each."""
    option_ids: dict[ApprovalDecision, str] = {}
    options = params.get("options")
    for option in options if isinstance(options, list) else ():
        if isinstance(option, dict) and isinstance(option.get("optionId"), str) and option.get("kind") in _DECISIONS:
            option_ids.setdefault(option["kind"], option["optionId"])
    return option_ids


def _select(option: str) -> Mapping[str, Any]:
    return {"outcome": {"outcome": "selected", "optionId": option}}
