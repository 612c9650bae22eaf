"""Messages: the conversation as the model sees it. One list of them, in order, is a session's history."""

from __future__ import annotations

from msgspec import Struct


class ToolCall(Struct, frozen=True, kw_only=True):
    """`id` is ours and unique in the session; `arguments` is the JSON text exactly as the model wrote it."""

    id: str
    name: str
    arguments: str


class ReasoningBlock(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`signature` and `redacted` are opaque data that a provider wants back unchanged."""

    text: str = ""
    signature: str = ""
    redacted: str = ""


class UserMessage(Struct, frozen=True, kw_only=True, tag="user", tag_field="role"):
    """`content` is sent as it stands. `origin` says who wrote it: the user, or the program (a reminder)."""

    content: str
    origin: str = "user"


class AssistantMessage(Struct, frozen=True, kw_only=True, tag="assistant", tag_field="role", omit_defaults=True):
    """`dialect`: the dialect in which `tool_calls` stand in the text of `content`, "" = they are function calls."""

    content: str = ""
    reasoning: tuple[ReasoningBlock, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    model: str = ""
    interrupted: bool = False
    dialect: str = ""


class ToolMessage(Struct, frozen=True, kw_only=True, tag="tool", tag_field="role"):
    call_id: str
    content: str
    is_error: bool = False


Message = UserMessage | AssistantMessage | ToolMessage


class Usage(Struct, frozen=True, kw_only=True):
    """Tokens of one or more model calls; `cost` in US dollars, None when the model's price is not known.

    `prompt_tokens` counts the whole prompt; the parts read from and written to a cache are also given alone.
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    cache_write_tokens: int = 0
    cost: float | None = None
