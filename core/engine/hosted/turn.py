"""A turn that a hosted agent answers: a run of it in the box, one prompt, its requests, and the changes in its layer.

The process starts with each turn, so it sees what is pending and what was accepted since. An agent that can load a
session continues it; any other is sent the conversation so far. In Ask and Plan mode its layer is in memory and is
dropped with the process.

Every effect lands in that layer, so a call that only reads or edits needs no permission. A command is decided by the
user's rules and policy, as one of ours would be; the user decides on any other request.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from functools import partial
from typing import Any, Final, cast

from core.acp.connection import INVALID_PARAMS, METHOD_NOT_FOUND, AcpError
from core.agent.context.turn_context import TurnContext
from core.agent.mentions.sources import PromptSurroundings
from core.agent.turn.turn_frame import Ending, TurnFrame
from core.agent.turn.turn_policy import format_hook_text
from core.agent.turn.user_message import build_bare_message
from core.engine.hosted.agent_process import AgentFailed, AgentProcess
from core.engine.hosted.updates import HostedCall, UpdateReader
from core.engine.session.session import Session
from core.errors import AgentTuiError
from core.ids import new_id
from core.modes import Access
from core.permissions.policy import PolicyDecision
from core.protocol import events as ev
from core.protocol.attachment_labels import find_attachments
from core.protocol.events import ApprovalDecision, ApprovalRequested
from core.protocol.messages import AssistantMessage, Message, UserMessage
from core.protocol.review import Origin
from core.providers.hosted_agents import HostedAgent
from core.tools.base import Tool
from core.tools.builtin.terminal.run_terminal_cmd import RunTerminalCmd

_HARMLESS: Final = frozenset({"read", "search", "think", "edit", "delete", "move"})
_DECISIONS: Final[tuple[ApprovalDecision, ...]] = ("allow_once", "allow_always", "reject_once", "reject_always")
_CANCELLED: Final = {"outcome": {"outcome": "cancelled"}}
MAX_HISTORY: Final = 40_000  # characters of the conversation that the agent is sent
MAX_TURNS: Final = 50  # prompts in one turn, if the user sends messages meanwhile
NOT_STARTED_HINT: Final = (
    "Its message is above. agent-tui doctor describes the sandbox; [agent_servers] can set its mode."
)
DROPPED_NOTICE: Final = "{} mode keeps no changes: what it wrote in its sandbox was dropped."
_ENDS: Final[Mapping[str, ev.TurnEnd]] = {
    "end_turn": "done",
    "max_tokens": "limit",
    "max_turn_requests": "limit",
    "refusal": "failed",
    "cancelled": "interrupted",
}
_REASONS: Final[Mapping[str, str]] = {
    "end_turn": "",
    "cancelled": "",
    "max_tokens": "The agent's model reached its token limit.",
    "max_turn_requests": "The agent reached its own limit of model calls per turn.",
    "refusal": "The agent refused to continue.",
}


async def ask_hosted(
    session: Session,
    agent: HostedAgent,
    context: TurnContext,
    prompt: str,
    surroundings: PromptSurroundings,
    instruction: str,
) -> None:
    """Let a hosted agent answer. `instruction`: sent instead of the prompt, "" = the prompt."""
    await HostedTurn(context, session, agent).run(prompt, surroundings, instruction or prompt)


class HostedTurn:
    """One turn of a hosted agent. It receives the requests and notifications of the connection."""

    def __init__(self, context: TurnContext, session: Session, agent: HostedAgent) -> None:
        self._context, self._session, self._agent = context, session, agent
        self._reader = UpdateReader(agent.name, session.workspace.root, context.emit)
        self._requests = AgentRequests(agent.name, context, self._reader)
        self._process: AgentProcess | None = None
        self._is_prompted = False

    async def answer(self, method: str, params: Mapping[str, Any]) -> Any:
        """Answer a request of the agent."""
        if not self._is_prompted:
            raise AcpError("no prompt is running", number=METHOD_NOT_FOUND)
        return await self._requests.answer(method, params)

    def notice(self, method: str, params: Mapping[str, Any]) -> None:
        """Apply an update. Updates while a session is loaded are skipped: they repeat the past conversation."""
        update = params.get("update")
        if method == "session/update" and self._is_prompted and isinstance(update, dict):
            self._reader.apply(update)
            if self._process is not None:
                self._process.restore_mode(update)
                if breach := self._requests.find_breach(update):
                    self._process.connection.close(breach)

    async def run(self, prompt: str, surroundings: PromptSurroundings, instruction: str) -> None:
        """Run the whole turn; `TurnContext.interrupt` stops it."""
        work = partial(self._answer, prompt, surroundings, instruction)
        self._frame = TurnFrame(self._context, prompt, self._reader.add_error, is_retryable=True)
        self._hooks = self._frame.hooks
        await self._frame.run(work, lambda: (self._reader.usage, 1))

    async def _answer(
        self, prompt: str, surroundings: PromptSurroundings, instruction: str, hook_context: str
    ) -> Ending:
        """Let the agent answer the prompt, and what hooks want to have done after it. Each is a run of its process, so
        hooks and the next run see the changes of the one before as pending."""
        context, text = self._context, instruction
        before = tuple(context.state.messages)
        context.emit(ev.MessageAppended(message=build_bare_message(prompt, context.state.attachments)))
        self._hooks.append_context(hook_context)
        while text:
            ending = await self._work(before, text, surroundings, hook_context)
            before, surroundings, hook_context = tuple(context.state.messages), PromptSurroundings(), ""
            text = format_hook_text(followup) if (followup := await self._find_followup(ending)) else ""
        return ending

    async def _find_followup(self, ending: Ending) -> str:
        return await self._hooks.request_followup() if ending[0] == "done" else ""

    async def _work(
        self, before: tuple[Message, ...], text: str, surroundings: PromptSurroundings, hook_context: str
    ) -> Ending:
        context, agent = self._context, self._agent
        keeps_effects = context.permissions.mode.rules.keeps_effects
        process = self._process = AgentProcess(self._session, agent, self, keeps_effects=keeps_effects)
        try:
            await process.start()
            remembers = await process.open_session(context.state.agent_sessions.get(agent.name, ""))
            context.emit(ev.AgentSessionOpened(agent=agent.name, id=process.id))
            blocks = [*self._build_updates(before, remembers=remembers), *self._build_prompt(text, surroundings)]
            if hook_context:
                blocks.append({"type": "text", "text": format_hook_text(hook_context)})
            ending = await self._converse(process, blocks)
            if ending[0] == "done" and (failure := self._reader.find_failure()):
                raise AgentFailed(failure, hint=NOT_STARTED_HINT)
            return ending
        finally:
            await asyncio.shield(self._finish(process, keeps_effects=keeps_effects))

    async def _converse(self, process: AgentProcess, blocks: list[Mapping[str, Any]]) -> Ending:
        """Send the prompt, then messages that the user sent meanwhile, since an agent takes none while it works."""
        state, self._is_prompted = self._context.state, True
        for _ in range(MAX_TURNS):
            reason = await process.prompt(blocks)
            text = _REASONS.get(reason, f"The agent ended its turn: {reason!r}.")
            ending = (_ENDS.get(reason, "failed"), text)
            await self._hooks.report_answer(self._reader.answer_text)
            await self._hooks.check_steers()
            if not state.pending_steers or ending[0] != "done":
                break
            steers = dict(state.pending_steers)
            self._append_answer()
            message = UserMessage(content="\n\n".join(steers.values()))
            self._context.emit(ev.MessageAppended(message=message, steers=tuple(steers)))
            blocks = [{"type": "text", "text": message.content}]
        return ending

    def _append_answer(self) -> None:
        """Record the agent's text as the answer, so that the next model has it in its history."""
        answer, self._reader.answer_text = self._reader.answer_text, ""
        message = AssistantMessage(content=answer or "(nothing)", model=self._context.routes.current.id)
        self._context.emit(ev.MessageAppended(message=message))

    async def _finish(self, process: AgentProcess, *, keeps_effects: bool) -> None:
        """End the process and propose its writes, after any outcome of the turn."""
        await process.stop()
        self._is_prompted = False
        try:
            notice = process.absorb(Origin(turn=self._context.turn_id, tool=self._context.routes.current.id))
        except AgentTuiError as problem:
            self._session.report_error(problem)
            notice = ""
        if notice:
            self._reader.add_text(notice)
        elif not keeps_effects and any(call.has_edited for call in self._reader.calls.values()):
            self._reader.add_text(DROPPED_NOTICE.format(self._context.permissions.mode.value.capitalize()))
        self._reader.close()
        self._append_answer()

    # messages to the agent

    def _build_prompt(self, text: str, surroundings: PromptSurroundings) -> list[Mapping[str, Any]]:
        """Build the blocks of the prompt: text, mentioned files as links, and pictures if the agent accepts them."""
        root = self._session.workspace.root
        blocks: list[Mapping[str, Any]] = [{"type": "text", "text": text}]
        paths = dict.fromkeys(context_item.path for context_item in surroundings.items or () if context_item.path)
        blocks += [
            {"type": "resource_link", "uri": (root / path).as_uri(), "name": path}
            for path in (*paths, *(open_file for open_file in surroundings.open_files if open_file not in paths))
        ]
        return blocks + self._build_pictures(text)

    def _build_pictures(self, text: str) -> list[Mapping[str, Any]]:
        takes = self._process.capabilities.get("promptCapabilities") if self._process is not None else None
        attachments = find_attachments(text, self._context.state.attachments)
        pictures = [attachment for attachment in attachments if attachment.media_type.startswith("image/")]
        if len(pictures) < len(attachments) or (pictures and not (isinstance(takes, dict) and takes.get("image"))):
            self._context.emit(
                ev.Notice(
                    level="warning", message=f"Content that {self._agent.name} does not accept was not sent to it."
                )
            )
        if not (isinstance(takes, dict) and takes.get("image")):
            return []
        blobs = self._session.shadow.blobs
        return [
            {
                "type": "image",
                "mimeType": picture.media_type,
                "data": base64.b64encode(blobs.get(picture.digest)).decode("ascii"),
            }
            for picture in pictures
        ]

    def _build_updates(self, before: tuple[Message, ...], *, remembers: bool) -> list[Mapping[str, Any]]:
        """Build the blocks that the agent can't know: the conversation without it, and verdicts on its changes."""
        paragraphs = [_render_history(self._list_unknown_messages(before) if remembers else before)]
        verdicts = self._context.state.unreported_verdicts
        if verdicts:
            lines = [
                f"- {verdict.verdict}ed: {verdict.path}{f' ({verdict.reason})' if verdict.reason else ''}"
                for verdict in verdicts.values()
            ]
            paragraphs.append(
                "\n".join(
                    [
                        "The user reviewed your edits. Accepted hunks are in the files; rejected ones are removed:",
                        *lines,
                    ]
                )
            )
            self._context.emit(ev.VerdictsReported(ids=tuple(verdicts)))
        return [{"type": "text", "text": paragraph} for paragraph in paragraphs if paragraph]

    def _list_unknown_messages(self, before: tuple[Message, ...]) -> tuple[Message, ...]:
        """Return the messages since the agent's last answer, in which another model answered."""
        model = self._context.routes.current.id
        answers = [
            index
            for index, message in enumerate(before)
            if isinstance(message, AssistantMessage) and message.model == model
        ]
        return before[answers[-1] + 1 :] if answers else before


def _render_history(messages: tuple[Message, ...]) -> str:
    """Render the conversation as text, only its end if it is long; "" = there is none."""
    lines = [
        f"{'User' if isinstance(message, UserMessage) else 'Assistant'}: {message.content}"
        for message in messages
        if isinstance(message, UserMessage | AssistantMessage) and message.content
    ]
    text = "\n\n".join(lines)[-MAX_HISTORY:]
    return f"The conversation so far:\n\n{text}" if text else ""


class AgentRequests:
    """Answers the requests of one agent. `agent`: its name."""

    def __init__(self, agent: str, context: TurnContext, reader: UpdateReader) -> None:
        self._agent, self._context, self._reader = agent, context, reader

    async def answer(self, method: str, params: Mapping[str, Any]) -> Any:
        """Return the result of a request. Raises `AcpError`."""
        if method == "session/request_permission":
            return await self._answer_permission(params)
        raise AcpError(f"{method} is not available here", number=METHOD_NOT_FOUND)

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
        # Without an answer of the user the request is cancelled, not refused.
        return _select(options[decision]) if by_user and decision in options else _CANCELLED

    def find_breach(self, update: Mapping[str, Any]) -> str:
        """Return a message if an update reports a command that the agent runs without permission and that the user's
        rules deny; "" = it reports none."""
        call = self._reader.calls.get(str(update.get("toolCallId")))
        if call is None or call.was_asked or call.kind != "execute" or call.status not in {"in_progress", "completed"}:
            return ""
        policy_decision = self._decide(call)
        if policy_decision.choice != "deny":
            return ""
        call.is_refused = True
        return (
            f"{self._agent} ran a command without asking, and was stopped: {call.command[:300]}\n"
            f"{policy_decision.reason}"
        )

    def _decide(self, call: HostedCall) -> PolicyDecision:
        """Decide on a call by rules and policy."""
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
                containment=f"in the sandbox of {self._agent}, over the shadow",
                options=tuple(decision for decision in _DECISIONS if decision in options),
                reason=reason,
                mode=self._context.state.mode,
            )
        )
        return approval.decision, approval.by == "user"


def _read_options(params: Mapping[str, Any]) -> dict[ApprovalDecision, str]:
    """Return the ids of the offered options by kind, the first of a kind."""
    option_ids: dict[ApprovalDecision, str] = {}
    options = params.get("options")
    for option in options if isinstance(options, list) else ():
        if isinstance(option, dict) and isinstance(option.get("optionId"), str) and option.get("kind") in _DECISIONS:
            option_ids.setdefault(option["kind"], option["optionId"])
    return option_ids


def _select(option: str) -> Mapping[str, Any]:
    return {"outcome": {"outcome": "selected", "optionId": option}}
