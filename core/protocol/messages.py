"""Messages: the conversation as the model sees it. One list of them, in order, is a session's history."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from msgspec import Struct

from core.ids import Id
from core.protocol import choices

Effort = choices.Effort
ServiceTier = choices.ServiceTier
TierChoice = choices.TierChoice
WireProtocol = Literal["chat", "responses", "messages"]
ModelJob = Literal["chat", "apply", "small", "embed", "subagent", "advisor"]


class Attachment(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A picture or a PDF that goes with a message; its bytes are the session's blob `digest` (SHA-256, hex).
    `media_type`: image/png, image/jpeg, image/gif, image/webp or application/pdf. `size` in bytes, `width` and `height`
    in pixels (0: a PDF), `pages` of a PDF (0: not known, or a picture)."""

    digest: Id
    media_type: str
    name: str = ""
    size: int = 0
    width: int = 0
    height: int = 0
    pages: int = 0


class WireAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An answer of an API, to be sent back unchanged and in order. `items`: the output items (responses), content
    blocks (messages) or the one message (chat). `binding`: the digest of everything sent before it, to which its
    reasoning is bound; "" = its reasoning is not bound."""

    wire: WireProtocol
    items: tuple[dict[str, Any], ...]
    binding: str = ""


class ToolCall(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`id` is ours and unique in the session; `arguments` is the JSON text exactly as the model wrote it. `wire_id`:
    the provider's id of the call, which its result refers to among the answer's own items."""

    id: str
    name: str
    arguments: str
    wire_id: str = ""


class ReasoningBlock(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The visible reasoning of a model. `signature` and `redacted` are opaque, and only in older sessions."""

    text: str = ""
    signature: str = ""
    redacted: str = ""


class UserMessage(Struct, frozen=True, kw_only=True, tag="user", tag_field="role"):
    """`content` is sent unchanged. `origin`: its author, the user or the program (a reminder)."""

    content: str
    origin: str = "user"
    attachments: tuple[Attachment, ...] = ()


class AssistantMessage(Struct, frozen=True, kw_only=True, tag="assistant", tag_field="role", omit_defaults=True):
    """`dialect`: the dialect of `tool_calls` in the text of `content`, "" = they are function calls, except for those
    in `in_text`: edits that a model with function calls wrote into its text. `model`: `provider/name` of the model that
    answered; `wire`: its unchanged answer, None = there is no need to store it."""

    content: str = ""
    reasoning: tuple[ReasoningBlock, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    model: str = ""
    interrupted: bool = False
    dialect: str = ""
    in_text: tuple[str, ...] = ()
    wire: WireAnswer | None = None


class FoundTool(Struct, frozen=True, kw_only=True):
    """A tool that a search found. `parameters` is a JSON Schema object."""

    name: str
    description: str
    parameters: dict[str, Any]


class ToolMessage(Struct, frozen=True, kw_only=True, tag="tool", tag_field="role", omit_defaults=True):
    """`tools`: those that the call found, which an API may load from here on; `content` describes them, too."""

    call_id: str
    content: str
    is_error: bool = False
    attachments: tuple[Attachment, ...] = ()
    tools: tuple[FoundTool, ...] = ()


class EffortMessage(Struct, frozen=True, kw_only=True, tag="effort", tag_field="role"):
    """From here on the model works at another effort, `before` at this one ("" = its default). It has no text: APIs get
    it as a change within the conversation, so that what came before stays cached, or not at all."""

    effort: Effort
    before: Effort | Literal[""] = ""


Message = UserMessage | AssistantMessage | ToolMessage | EffortMessage


def list_texts(messages: Iterable[Message]) -> list[str]:
    """Return the texts of messages that have one."""
    return [message.content for message in messages if not isinstance(message, EffortMessage)]


class Usage(Struct, frozen=True, kw_only=True):
    """Tokens of one or more model calls; `cost` in US dollars, None when the model's price is not known, `estimated`
    by the price of a similar model. `prompt_tokens` counts the whole prompt; the parts read from and written to a cache
    are also given alone, and of the written ones those that are kept for long. `tier`: the service tier, "" = the
    standard one, or several calls."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    cache_write_tokens: int = 0
    long_cache_tokens: int = 0
    cost: float | None = None
    estimated: bool = False
    tier: ServiceTier | Literal[""] = ""

    def format_cost(self, digits: int = 4) -> str:
        """Format the cost in US dollars with "~" before an estimate; "" = none, or not known. A small one is never
        rounded to zero."""
        if not self.cost:
            return ""
        least = 10**-digits
        return (
            f"< ${least:.{digits}f}"
            if self.cost < least / 2
            else f"{'~' if self.estimated else ''}${self.cost:.{digits}f}"
        )
