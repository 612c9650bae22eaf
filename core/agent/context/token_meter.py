"""Sizes of messages: bytes as they are sent, and an estimate of the tokens that a request will have.

The source for attachments is Anthropic's vision guide (tokens ≈ width · height / 750) and its PDF guide (a page counts
as text and as a picture).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import is_
from typing import Final

import msgspec
from msgspec import Struct, field

from core.protocol.messages import (
    AssistantMessage,
    Attachment,
    EffortMessage,
    Message,
    ToolMessage,
    UserMessage,
    WireAnswer,
)
from core.providers.base import ToolSpec
from core.text.well_formed import encode_record

BYTES_PER_TOKEN = 4.0
PIXELS_PER_TOKEN: Final = 750
TOKENS_PER_PAGE: Final = 2_300
BYTES_PER_PAGE: Final = 50_000  # of a PDF with an unknown number of pages


def measure_messages(messages: Iterable[Message]) -> int:
    """Return the approximate size of messages in bytes, as a provider counts them."""
    return sum(map(_measure_message, messages))


def _measure_message(message: Message) -> int:
    match message:
        case UserMessage() | ToolMessage():
            attachment_size = round(sum(map(estimate_attachment_tokens, message.attachments)) * BYTES_PER_TOKEN)
            return len(message.content.encode("utf-8", "replace")) + 16 + attachment_size
        case AssistantMessage(wire=WireAnswer(items=items)):
            return len(encode_record(items)) + 16
        case AssistantMessage():
            texts = (message.content, *(call.name + call.arguments for call in message.tool_calls))
            return len("".join(texts).encode("utf-8", "replace")) + 32 * len(message.tool_calls) + 16
        case EffortMessage():
            return 16


def estimate_attachment_tokens(attachment: Attachment) -> int:
    """Estimate the tokens of an attachment, at least one."""
    if attachment.width:
        return max(attachment.width * attachment.height // PIXELS_PER_TOKEN, 1)
    return max(attachment.pages or attachment.size // BYTES_PER_PAGE, 1) * TOKENS_PER_PAGE


class TokenMeter(Struct, eq=False):
    """An estimate of tokens: about four bytes per token, corrected by the provider's count of the last request."""

    _bytes_per_token: float = BYTES_PER_TOKEN
    _counted: tuple[int, int, int] | None = None
    _measured: list[Message] = field(default_factory=list)
    _sizes: list[int] = field(default_factory=lambda: [0])

    def calibrate(self, prefix: int, messages: Sequence[Message], prompt_tokens: int) -> None:
        """Record that the provider counted `prompt_tokens` for a prefix of `prefix` bytes and these messages."""
        if prompt_tokens <= 0:
            return
        size = prefix + self._measure_prefixes(messages)[-1]
        self._bytes_per_token = min(max(size / prompt_tokens, 1.0), 12.0)
        self._counted = (len(messages), prefix, prompt_tokens)

    @property
    def is_calibrated(self) -> bool:
        """True if a provider has counted a request of this history; otherwise everything is an estimate."""
        return self._counted is not None

    @property
    def counted_tokens(self) -> int:
        """The provider's count of the last request, 0 = there is none."""
        return self._counted[2] if self._counted else 0

    def count_tokens(self, prefix: int, messages: Sequence[Message]) -> int:
        """Return the tokens of a request with these messages: the provider's count, and an estimate of the rest."""
        sizes = self._measure_prefixes(messages)
        if self._counted and self._counted[0] <= len(messages) and self._counted[1] == prefix:
            return self._counted[2] + round((sizes[-1] - sizes[self._counted[0]]) / self._bytes_per_token)
        return round((prefix + sizes[-1]) / self._bytes_per_token)

    def _measure_prefixes(self, messages: Sequence[Message]) -> list[int]:
        """Return the bytes of the first 0, 1, 2 … messages; known ones of a growing history are not measured again."""
        if len(self._measured) > len(messages) or not all(map(is_, self._measured, messages)):
            self._measured, self._sizes = [], [0]
        for message in messages[len(self._measured) :]:
            self._measured.append(message)
            self._sizes.append(self._sizes[-1] + _measure_message(message))
        return self._sizes

    def estimate(self, size: int) -> int:
        """Return the tokens of `size` bytes."""
        return round(size / self._bytes_per_token)

    def reset(self) -> None:
        """Drop the last count: the history was replaced."""
        self._counted = None


def measure_prefix(system: str, tools: Sequence[ToolSpec]) -> int:
    """Return the bytes of the stable prefix."""
    return len(system.encode("utf-8", "replace")) + len(msgspec.json.encode(tools))
