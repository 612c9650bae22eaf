"""Side questions (`/btw`): the model answers about a session, and its conversation does not change.

The request is the conversation's own with the question behind it: the same model, system prompt, tools and history, so
that the provider's cache of them is hit. The tools are described in it but none is run, since a call would need its
place in the history. What is recorded is the cost, and the answer in an event that no request carries. A turn may run
meanwhile; its calls without a result are described as such.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from msgspec import Struct, field

from core.agent.answer.receiver import closing_stream
from core.agent.base.prompt_tags import escape_tags
from core.agent.context.turn_context import TurnContext
from core.agent.turn.goal_keeper import render_changes
from core.agent.turn.model_calls import Backoff
from core.agent.turn.prompt_setup import build_request, load_setup
from core.clock import pause
from core.engine.session.session import Session
from core.engine.turns.lifecycle import build_context, find_box_unattended
from core.errors import AgentTuiError, ContextOverflow, ProviderError
from core.prompts import render
from core.protocol.events import AsideAnswered, AsideDelta, ModelUsed
from core.protocol.messages import AssistantMessage, Message, ToolMessage, Usage, UserMessage
from core.providers.base import ModelRequest, TextDelta, ToolCallDelta, UsageReport
from core.shell.long_output import shorten_middle
from core.state.session import add_usage

MAX_CHANGES: Final = 20_000  # characters of the pending changes that go with a question
RETRY_SECONDS: Final = 20.0
UNFINISHED: Final = "(This call has not ended yet.)"
STOPPED: Final = "It was stopped."
NO_WORDS: Final = "The model called tools instead of answering; none is run for a side question. Ask it as a prompt."
NO_ANSWER: Final = "The model gave no answer."
TOO_LONG: Final = "/compact shortens the conversation."


class _Reply(Struct, eq=False):
    """The reply to one side question, as far as it has come."""

    parts: list[str] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    model: str = ""
    has_called: bool = False

    @property
    def text(self) -> str:
        return "".join(self.parts)


async def answer_aside(session: Session, identity: str, question: str) -> None:
    """Have the model answer a side question, and emit the answer with its cost, however it ends."""
    reply, problem = _Reply(), ""
    if (task := asyncio.current_task()) is not None:
        session.asides[identity] = task
    try:
        await _ask(session, reply, identity, question)
        problem = "" if reply.text.strip() else NO_WORDS if reply.has_called else NO_ANSWER
    except asyncio.CancelledError:
        problem = STOPPED
        raise
    except AgentTuiError as error:
        if isinstance(error, ContextOverflow):
            error.hint = TOO_LONG
        problem = error.format_with_hint()
    finally:
        session.asides.pop(identity, None)
        if reply.usage != Usage():
            session.emit_outside_turn(ModelUsed(job="chat", model=reply.model, usage=reply.usage))
        session.emit_outside_turn(
            AsideAnswered(
                id=identity, question=question, text=reply.text, model=reply.model, usage=reply.usage, problem=problem
            )
        )


async def _ask(session: Session, reply: _Reply, identity: str, question: str) -> None:
    """Ask, and once more if the model calls a tool instead of answering."""
    is_running = session.turn_slot.is_running
    running = session.context if is_running else None  # its route may be a fallback
    if running is None:
        await find_box_unattended(session)  # the list of tools depends on it
        await session.routes.learn()
    context = running or build_context(session)
    setup, history = await load_setup(context), close_calls(session.state.messages)
    changes = shorten_middle("\n\n".join(render_changes(context)), MAX_CHANGES)
    for is_repeated in (False, True):
        content = render(
            "aside",
            question=escape_tags(question),
            changes=escape_tags(changes),
            is_running=is_running,
            is_repeated=is_repeated,
        )
        request = await build_request(context, setup, [*history, UserMessage(content=content)])
        await _stream(session, context, request, reply, identity)
        if reply.text.strip() or not reply.has_called:
            return


async def _stream(session: Session, context: TurnContext, request: ModelRequest, reply: _Reply, identity: str) -> None:
    """Receive one answer; a failure before its first words is retried. Raises `ProviderError`."""
    route = context.routes.current
    backoff = Backoff(has_answered=route.id in context.routes.answered, budget=RETRY_SECONDS)
    reply.model, before = route.id, reply.usage
    while True:
        try:
            async with closing_stream(route.provider.stream(request)) as stream:
                async for delta in stream:
                    match delta:
                        case TextDelta(text=text):
                            reply.parts.append(text)
                            session.emit_outside_turn(AsideDelta(id=identity, text=text))
                        case UsageReport(usage=usage):
                            reply.usage = add_usage(before, context.routes.add_cost(route, usage))
                        case ToolCallDelta():
                            reply.has_called = True
                        case _:
                            pass
            return
        except ProviderError as error:
            wait = None if reply.parts else backoff.compute_pause(error)
            if wait is None:
                raise
            before = reply.usage
            await pause(wait)


def close_calls(messages: Sequence[Message]) -> list[Message]:
    """Return a history that a provider accepts in the middle of a turn: calls without a result get one that says so."""
    last = next((message for message in reversed(messages) if isinstance(message, AssistantMessage)), None)
    ended_ids = {message.call_id for message in messages if isinstance(message, ToolMessage)}
    open_calls = [call for call in last.tool_calls if call.id not in ended_ids] if last is not None else []
    return [*messages, *(ToolMessage(call_id=call.id, content=UNFINISHED) for call in open_calls)]
