"""The demands of one server on the form of a history, and what they make of its messages.

A server's template may want user and assistant by turns, take no system prompt, or no message without a text. Its
requests only grow like all others: what is said behind results comes after a short answer, so that nothing before it
changes; of two prompts in a row the first one grows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from core.protocol.messages import AssistantMessage, Message
from core.providers.openai.openai_wire import Item

RECEIVED: Final = "(I have the results.)"  # the answer of the model between results and what the user says then
BLANKS: Final = ("", " ")  # what stands for no text, the next one where the first is refused, too
_BREAK: Final = "\n\n"


class HostHabits(Struct, frozen=True, kw_only=True):
    """`refused`: fields of a returned message that the server does not take; `demanded`: what it wants with every call,
    whichever model made it; `short_ids`: see `shorten_id`. `alternates`: user and assistant come by turns;
    `takes_system` False: the system prompt stands in the first prompt; `blank`: the content of a message that has
    calls alone, None = null."""

    refused: frozenset[str] = frozenset()
    demanded: frozenset[str] = frozenset()
    short_ids: bool = False
    alternates: bool = False
    takes_system: bool = True
    blank: str | None = None

    def fill_content(self, item: Item) -> Item:
        """Return an item whose content is never null, if the server wants that."""
        return item | {"content": self.blank} if item.get("content") is None and self.blank is not None else item


def find_run_end(messages: Sequence[Message], start: int) -> int:
    """Return where the messages end that are one turn of the model's or one of the user's, its results among them."""
    answers, end = None, start
    while end < len(messages):
        message = messages[end]
        if not is_silent(message):
            is_answer = isinstance(message, AssistantMessage)
            if answers is not None and answers is not is_answer:
                break
            answers = is_answer
        end += 1
        if isinstance(message, AssistantMessage) and message.tool_calls:
            break
    return end


def is_silent(message: Message) -> bool:
    """Return True for an answer that stands in no request, so that it parts no two turns."""
    return isinstance(message, AssistantMessage) and not message.content and not message.tool_calls


def alternate_items(items: Sequence[Item]) -> list[Item]:
    """Return the items of one turn in the form of a server that counts them: results, then one message at most."""
    results = [entry for entry in items if entry["role"] == "tool"]
    messages = [entry for entry in items if entry["role"] != "tool"]
    if not messages:
        return results
    message = messages[0]
    for item in messages[1:]:
        message = {**message, **item, "content": join_contents(message.get("content"), item.get("content"))}
    return [*results, *([{"role": "assistant", "content": RECEIVED}] if results else []), message]


def join_contents(first: Any, second: Any) -> Any:
    """Return two contents as one: texts, or lists of parts where one of them has attachments."""
    if not first or not second:
        return first or second
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}{_BREAK}{second}"
    return [*_list_parts(first), *_list_parts(second)]


def _list_parts(content: str | Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
