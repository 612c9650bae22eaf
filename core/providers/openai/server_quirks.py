"""The requirements of one server on the form of a history, and the adaptation of messages to them.

A server's chat template may require user and assistant to alternate, reject a system prompt, or reject a message
without text. Requests still only grow: a user message after results follows a short inserted answer, so that nothing
before it changes; of two consecutive prompts the first one grows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from core.protocol.messages import AssistantMessage, Message
from core.providers.catalog.capabilities import Capabilities
from core.providers.openai.openai_wire import Item

RECEIVED: Final = "(I have the results.)"  # The inserted answer between results and the next user message.
BLANKS: Final = ("", " ")  # Substitutes for an empty text; the next one is used if the first is refused.
_BREAK: Final = "\n\n"


class ServerQuirks(Struct, frozen=True, kw_only=True):
    """The quirks of a server. `refused`: fields of a returned message that it rejects; `required_fields`: fields that
    every call needs, whichever model made it; `short_ids`: see `shorten_id`. `alternates`: user and assistant messages
    must alternate; `takes_system` False: the system prompt is part of the first prompt; `blank`: the content of a
    message that has only calls, None = null; `takes_objects` False: an object in a tool's definition has to list its
    fields."""

    refused: frozenset[str] = frozenset()
    required_fields: frozenset[str] = frozenset()
    short_ids: bool = False
    alternates: bool = False
    takes_system: bool = True
    blank: str | None = None
    takes_objects: bool = True

    def fit_schema(self, schema: Item) -> Item:
        """Return the definition of a tool's arguments. Where an object of any fields is refused, it is a text."""
        if self.takes_objects:
            return schema
        if schema.get("type") == "object" and "properties" not in schema:
            return schema | {"type": "string"}
        parts = {"items": self.fit_schema(schema["items"])} if isinstance(schema.get("items"), dict) else {}
        fields = {name: self.fit_schema(field) for name, field in schema.get("properties", {}).items()}
        return schema | parts | ({"properties": fields} if fields else {})

    def fill_content(self, item: Item) -> Item:
        """Return an item without a null content, if the server requires that."""
        return item | {"content": self.blank} if item.get("content") is None and self.blank is not None else item


def add_reported(quirks: ServerQuirks, capabilities: Capabilities) -> ServerQuirks:
    """Return the quirks with what the server says of its template, so that it need not refuse a request first."""
    return replace(
        quirks,
        alternates=quirks.alternates or capabilities.alternates,
        takes_system=quirks.takes_system and capabilities.takes_system,
    )


def find_run_end(messages: Sequence[Message], start: int) -> int:
    """Return the end of a run of messages that are one turn of the model, or one of the user including its results."""
    answers, end = None, start
    while end < len(messages):
        message = messages[end]
        if not is_empty_answer(message):
            is_answer = isinstance(message, AssistantMessage)
            if answers is not None and answers is not is_answer:
                break
            answers = is_answer
        end += 1
        if isinstance(message, AssistantMessage) and message.tool_calls:
            break
    return end


def is_empty_answer(message: Message) -> bool:
    """Return True for an answer that is in no request, so that it separates no turns."""
    return isinstance(message, AssistantMessage) and not message.content and not message.tool_calls


def alternate_items(items: Sequence[Item]) -> list[Item]:
    """Return the items of one turn for a server with alternating roles: the results, then at most one message."""
    results = [entry for entry in items if entry["role"] == "tool"]
    messages = [entry for entry in items if entry["role"] != "tool"]
    if not messages:
        return results
    message = messages[0]
    for item in messages[1:]:
        message = {**message, **item, "content": join_contents(message.get("content"), item.get("content"))}
    return [*results, *([{"role": "assistant", "content": RECEIVED}] if results else []), message]


def join_contents(first: Any, second: Any) -> Any:
    """Join two contents: texts, or lists of parts where one of them has attachments."""
    if not first or not second:
        return first or second
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}{_BREAK}{second}"
    return [*_list_parts(first), *_list_parts(second)]


def _list_parts(content: str | Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
