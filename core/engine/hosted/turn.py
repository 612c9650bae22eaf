"""A turn that a hosted agent answers: a run of it in the box, one prompt, and what it left in its layer.

It begins with each turn anew, so it sees what is pending and what was accepted since; an agent that can load a session
goes on where it was, another one is told what was said. In Ask and Plan its layer is in memory, and gone with it.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from typing import Any, Final

from core.acp.connection import METHOD_NOT_FOUND, AcpError
from core.agent.context.reminders import return_steers
from core.agent.context.turn_context import TurnContext
from core.agent.mentions.sources import PromptSurroundings
from core.agent.turn.user_message import build_bare_message
from core.clock import monotonic
from core.engine.hosted.agent_process import AgentFailed, AgentProcess
from core.engine.hosted.agent_requests import AgentRequests
from core.engine.hosted.updates import UpdateReader, measure_since
from core.engine.session.session import Session
from core.errors import AgentTuiError
from core.protocol import events as ev
from core.protocol.attachment_labels import find_attachments
from core.protocol.messages import AssistantMessage, Message, UserMessage
from core.protocol.review import Origin
from core.providers.hosted_agents import HostedAgent
from core.tasks import cancel_tasks

STOP_LIMIT: Final = 15.0  # seconds that an interrupted turn has to end by itself
MAX_RETOLD: Final = 40_000  # characters of what was said before
MAX_TURNS: Final = 50  # prompts that messages of the user's make of one turn
NOT_STARTED_HINT: Final = "Its words are above. agent-tui doctor says what holds it; [agent_servers] can name its mode."
NOT_KEPT: Final = "{} mode keeps nothing: what it wrote in its box was thrown away."
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
    "max_tokens": "The agent's model reached its limit of tokens.",
    "max_turn_requests": "The agent reached its own limit of model calls in one turn.",
    "refusal": "The agent refused to go on.",
}


async def ask_hosted(
    session: Session,
    agent: HostedAgent,
    context: TurnContext,
    prompt: str,
    surroundings: PromptSurroundings,
    instruction: str,
) -> None:
    """Let a hosted agent answer. `instruction`: what it is sent in place of the prompt, "" = the prompt."""
    await HostedTurn(context, session, agent).run(prompt, surroundings, instruction or prompt)


class HostedTurn:
    """One turn of a hosted agent; the ears of its connection."""

    def __init__(self, context: TurnContext, session: Session, agent: HostedAgent) -> None:
        self._context, self._session, self._agent = context, session, agent
        self._reader = UpdateReader(agent.name, session.workspace.root, context.emit)
        self._requests = AgentRequests(agent.name, context, self._reader)
        self._process: AgentProcess | None = None
        self._is_prompted = False
        self._end: tuple[ev.TurnEnd, str] = ("interrupted", "")

    async def answer(self, method: str, params: Mapping[str, Any]) -> Any:
        """Answer a request of the agent."""
        if not self._is_prompted:
            raise AcpError("no prompt is being worked on", number=METHOD_NOT_FOUND)
        return await self._requests.answer(method, params)

    def notice(self, method: str, params: Mapping[str, Any]) -> None:
        """Take an update; what comes while a session is loaded was said before."""
        update = params.get("update")
        if method == "session/update" and self._is_prompted and isinstance(update, dict):
            self._reader.take(update)
            if self._process is not None:
                self._process.keep_mode(update)
                if breach := self._requests.find_breach(update):
                    self._process.connection.close(breach)

    async def run(self, prompt: str, surroundings: PromptSurroundings, instruction: str) -> None:
        """Run the whole turn; `TurnContext.interrupt` stops it."""
        context, start_time = self._context, monotonic()
        before = tuple(context.state.messages)
        context.emit(ev.TurnStarted(prompt=prompt, mode=context.state.mode, model=context.routes.current.id))
        context.emit(ev.MessageAppended(message=build_bare_message(prompt, context.state.attachments)))
        working = context.working = asyncio.ensure_future(self._work(before, instruction, surroundings))
        try:
            await asyncio.wait({working})
        finally:
            if not working.done():
                await cancel_tasks([working], limit=STOP_LIMIT)
            fault = working.exception() if working.done() and not working.cancelled() else None
            context.working = None
            return_steers(context.state, context.emit)
            if fault is not None:
                self._end = ("failed", str(fault))
            reason, message = self._end
            context.emit(
                ev.TurnFinished(
                    reason=reason,
                    usage=self._reader.usage,
                    steps=1,
                    duration_ms=measure_since(start_time),
                    message=message,
                )
            )
        if fault is not None:
            raise fault

    async def _work(self, before: tuple[Message, ...], text: str, surroundings: PromptSurroundings) -> None:
        context, agent = self._context, self._agent
        keeps_effects = context.permissions.mode.rules.keeps_effects
        process = self._process = AgentProcess(self._session, agent, self, keeps_effects=keeps_effects)
        try:
            await process.start()
            remembers = await process.open_session(context.state.agent_sessions.get(agent.name, ""))
            context.emit(ev.AgentSessionOpened(agent=agent.name, id=process.id))
            blocks = [*self._build_news(before, remembers=remembers), *self._build_prompt(text, surroundings)]
            await self._converse(process, blocks)
            if self._end[0] == "done" and (failure := self._reader.find_failure()):
                raise AgentFailed(failure, hint=NOT_STARTED_HINT)
        except AgentTuiError as problem:
            self._end = ("failed", problem.format_with_hint())
            self._reader.add_error(problem.code, problem.message, hint=problem.hint)
            context.emit(ev.ErrorRaised(code=problem.code, message=problem.message, hint=problem.hint, retryable=True))
        finally:
            await asyncio.shield(self._finish(process, keeps_effects=keeps_effects))

    async def _converse(self, process: AgentProcess, blocks: list[Mapping[str, Any]]) -> None:
        """Send the prompt, then what the user said meanwhile: an agent hears nothing while it works."""
        state, self._is_prompted = self._context.state, True
        for _ in range(MAX_TURNS):
            reason = await process.prompt(blocks)
            self._end = (_ENDS.get(reason, "failed"), _REASONS.get(reason, f"The agent ended its turn by {reason!r}."))
            if not state.pending_steers or self._end[0] != "done":
                return
            steers = dict(state.pending_steers)
            self._append_answer()
            message = UserMessage(content="\n\n".join(steers.values()))
            self._context.emit(ev.MessageAppended(message=message, steers=tuple(steers)))
            blocks = [{"type": "text", "text": message.content}]

    def _append_answer(self) -> None:
        """Keep what the agent said as the answer: a model that answers next is told of it."""
        answer, self._reader.said = self._reader.said, ""
        message = AssistantMessage(content=answer or "(nothing)", model=self._context.routes.current.id)
        self._context.emit(ev.MessageAppended(message=message))

    async def _finish(self, process: AgentProcess, *, keeps_effects: bool) -> None:
        """End the process and take in what it left, whatever became of the turn."""
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
            self._reader.add_text(NOT_KEPT.format(self._context.permissions.mode.value.capitalize()))
        self._reader.close()
        self._append_answer()

    # what it is sent

    def _build_prompt(self, text: str, surroundings: PromptSurroundings) -> list[Mapping[str, Any]]:
        """Return the prompt, the files that it mentions as links, and its pictures as far as the agent takes them."""
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
                ev.Notice(level="warning", message=f"{self._agent.name} is not sent what it can't take.")
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

    def _build_news(self, before: tuple[Message, ...], *, remembers: bool) -> list[Mapping[str, Any]]:
        """Return what the agent can't know: what was said before it came, and the verdicts on what it wrote."""
        paragraphs = [_retell(self._find_unknown(before) if remembers else before)]
        verdicts = self._context.state.unreported_verdicts
        if verdicts:
            lines = [
                f"- {verdict.verdict}ed: {verdict.path}{f' ({verdict.reason})' if verdict.reason else ''}"
                for verdict in verdicts.values()
            ]
            paragraphs.append(
                "\n".join(
                    [
                        "The user reviewed what you wrote. Accepted hunks are in the files, rejected ones are gone:",
                        *lines,
                    ]
                )
            )
            self._context.emit(ev.VerdictsReported(ids=tuple(verdicts)))
        return [{"type": "text", "text": paragraph} for paragraph in paragraphs if paragraph]

    def _find_unknown(self, before: tuple[Message, ...]) -> tuple[Message, ...]:
        """Return what was said since the agent last answered: somebody else did meanwhile."""
        model = self._context.routes.current.id
        answers = [
            index
            for index, message in enumerate(before)
            if isinstance(message, AssistantMessage) and message.model == model
        ]
        return before[answers[-1] + 1 :] if answers else before


def _retell(messages: tuple[Message, ...]) -> str:
    """Return the conversation so far as text, its end if it is long; "" = there was none."""
    lines = [
        f"{'User' if isinstance(message, UserMessage) else 'Assistant'}: {message.content}"
        for message in messages
        if isinstance(message, UserMessage | AssistantMessage) and message.content
    ]
    text = "\n\n".join(lines)[-MAX_RETOLD:]
    return f"What was said before:\n\n{text}" if text else ""
