"""Advice: another model, usually a stronger one, judges a question of the agent in the middle of a turn.

It gets a view of the conversation as text within bounds: what the user wrote and the latest steps, results shortened
first. Secrets are masked in it as everywhere. A model of another maker is a second receiver of the conversation, which
the user has chosen in their own configuration and is told of once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from core.agent.base.prompt_tags import escape_tags
from core.agent.base.routes import Route
from core.agent.context.turn_context import TurnContext
from core.agent.turn.goal_keeper import render_changes
from core.errors import ProviderError, ToolFailed
from core.prompts import render
from core.protocol.events import AnyEvent, ModelUsed, Notice
from core.protocol.messages import AssistantMessage, Message, ToolMessage, UserMessage
from core.secrets import mask_secrets
from core.shell.long_output import shorten_middle
from core.tools.base import Advice

MAX_VIEW: Final = 60_000  # characters of the conversation that the advisor gets
MAX_CHANGES: Final = 20_000
MAX_RESULT: Final = 1_500  # characters of one result, and of the arguments of one call
MAX_WORDS: Final = 8_000  # characters of one message
NO_ADVISOR: Final = "There is no advisor."
HOW_TO_SET: Final = "Go on without it. The user can set one: `routes.advisor.model`."
RECEIVER: Final = "The agent consults {}: a model of another provider, which now gets this conversation, too."
HOW_TO_STOP: Final = "You chose it in `routes.advisor`; `enabled = false` in `[tools.consult_advisor]` ends that."


async def ask_advisor(context: TurnContext, question: str) -> Advice:
    """Ask the first advisor that answers. Raises `ToolFailed`."""
    if not context.routes.advisor:
        raise ToolFailed(NO_ADVISOR, hint=HOW_TO_SET)
    content = render(
        "advisor_question",
        conversation=escape_tags(mask_secrets(render_view(context.state.messages))),
        changes=escape_tags(shorten_middle("\n\n".join(render_changes(context)), MAX_CHANGES)),
        question=escape_tags(mask_secrets(question)),
    )
    problem: ProviderError | None = None
    for route in context.routes.advisor:
        _notify_receiver(context, route)
        costs = list[float]()
        try:
            text = await _ask(context, route, content, costs)
        except ProviderError as error:
            problem = error
            continue
        if text.strip():
            cost = f"${sum(costs):.4f}" if costs else ""
            return Advice(text=mask_secrets(text.strip()), model=route.id, cost=cost)
    reason = problem.message if problem is not None else "It gave no answer."
    raise ToolFailed(f"The advisor can't answer: {reason}", hint="Go on without it.")


async def _ask(context: TurnContext, route: Route, content: str, costs: list[float]) -> str:
    """Ask one model, and add what it cost, as far as that is known."""

    def emit(event: AnyEvent) -> None:
        if isinstance(event, ModelUsed) and event.usage.cost is not None:
            costs.append(event.usage.cost)
        context.emit(event)

    side = context.build_side_requests(emit)
    return await side.ask("advisor", route, render("advisor"), [UserMessage(content=content)])


def _notify_receiver(context: TurnContext, route: Route) -> None:
    """Tell the user once that a model of another provider gets the conversation."""
    provider = route.id.partition("/")[0]
    known = {context.routes.current.id.partition("/")[0], context.memory.announced.get("advisor")}
    if provider not in known:
        context.memory.announced["advisor"] = provider
        context.emit(Notice(level="info", message=RECEIVER.format(route.id), hint=HOW_TO_STOP))


def render_view(messages: Sequence[Message], limit: int = MAX_VIEW) -> str:
    """Render a conversation as text of at most about `limit` characters: its first message and the latest ones."""
    parts = list(_render_parts(messages))
    if not parts:
        return "(nothing yet)"
    first, rest, room = parts[0], list[str](), limit - len(parts[0])
    for part in reversed(parts[1:]):
        if len(part) > room:
            break
        rest.append(part)
        room -= len(part)
    left_out = len(parts) - 1 - len(rest)
    gap = [f"({left_out} earlier messages are left out.)"] if left_out else []
    return "\n\n".join([first, *gap, *reversed(rest)])


def _render_parts(messages: Sequence[Message]) -> Iterator[str]:
    for message in messages:
        match message:
            case UserMessage(content=content, origin=origin):
                who = "User" if origin == "user" else "Program"
                yield f"{who}: {shorten_middle(content.strip(), MAX_WORDS)}"
            case AssistantMessage():
                yield _render_answer(message)
            case ToolMessage(content=content, is_error=is_error):
                label = "Failed" if is_error else "Result"
                yield f"{label}: {shorten_middle(content.strip(), MAX_RESULT)}"
            case _:
                pass


def _render_answer(message: AssistantMessage) -> str:
    words = [shorten_middle(message.content.strip(), MAX_WORDS)] if message.content.strip() else []
    calls = [f"[calls {call.name} {shorten_middle(call.arguments, MAX_RESULT)}]" for call in message.tool_calls]
    return f"Agent: {' '.join([*words, *calls])}"
