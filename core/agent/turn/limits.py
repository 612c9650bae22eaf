"""The budget of a turn: its limits, what it has used, and how full the model's window is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import is_

import msgspec

from core.attachments.tokens import estimate_tokens
from core.config import TurnLimits
from core.errors import AgentTuiError
from core.protocol.messages import AssistantMessage, Message, ToolMessage, Usage, UserMessage, WireAnswer
from core.providers.base import ToolSpec
from core.state.usage import add_usage
from core.text.well_formed import encode_record

BYTES_PER_TOKEN = 4.0


class LimitReached(AgentTuiError):
    """A limit of the user's ends the turn; nothing went wrong."""

    code = "limit_reached"


class TurnBudget:
    """Steps and usage of a turn so far. `limits` returns those that hold now.

    Raises `LimitReached` before a step that a limit forbids. What it uses counts for `parent`, too.
    """

    def __init__(self, limits: Callable[[], TurnLimits], parent: TurnBudget | None = None) -> None:
        self._limits = limits
        self._parent = parent
        self.steps = 0
        self.usage = Usage()
        self.unpriced_model = ""

    def add(self, usage: Usage, model: str = "") -> None:
        """Add usage. `model`: the id of the model that used it, where that is known."""
        self.usage = add_usage(self.usage, usage)
        if usage.cost is None and usage.prompt_tokens + usage.completion_tokens:
            self.mark_unpriced(model or "the model")
        if self._parent is not None:
            self._parent.add(usage, model)

    def mark_unpriced(self, model: str) -> None:
        """Record that the price of this model is not known."""
        self.unpriced_model = self.unpriced_model or model
        if self._parent is not None:
            self._parent.mark_unpriced(model)

    def begin_step(self) -> int:
        """Count a step and return its number."""
        self.steps += 1
        if self._parent is not None:
            self._parent.begin_step()
        return self.steps

    def check_end(self) -> None:
        """Check the limits when a turn is done: its last step may have used more than there was.

        Raises `LimitReached`.
        """
        limits, used = self._limits(), self.usage.prompt_tokens + self.usage.completion_tokens
        hint = "The answer is whole; raise it with /limits or `{}` in your configuration, or ask for less."
        if limits.max_tokens and used > limits.max_tokens:
            raise LimitReached(f"{used:,} tokens were used (max_tokens).", hint=hint.format("limits.max_tokens"))
        if limits.max_cost and (self.usage.cost or 0.0) > limits.max_cost:
            raise LimitReached(
                f"${self.usage.cost or 0.0:.2f} were used (max_cost).", hint=hint.format("limits.max_cost")
            )

    def check(self) -> None:
        """Check the limits before a step. Raises `LimitReached`."""
        if self._parent is not None:
            self._parent.check()
        limits, used = self._limits(), self.usage.prompt_tokens + self.usage.completion_tokens
        hint = "Send another message to go on, or raise it with /limits or `{}` in your configuration."
        if limits.max_steps and self.steps >= limits.max_steps:
            raise LimitReached(f"Stopped after {self.steps} steps (max_steps).", hint=hint.format("limits.max_steps"))
        if limits.max_tokens and used >= limits.max_tokens:
            raise LimitReached(f"Stopped after {used:,} tokens (max_tokens).", hint=hint.format("limits.max_tokens"))
        if limits.max_cost and (self.usage.cost or 0.0) >= limits.max_cost:
            message = f"Stopped at a cost of ${self.usage.cost or 0.0:.2f} (max_cost)."
            raise LimitReached(message, hint=hint.format("limits.max_cost"))
        if limits.max_cost and self.unpriced_model:
            raise LimitReached(
                f"Stopped: what {self.unpriced_model} costs is not known, so max_cost "
                f"(${limits.max_cost:.2f}) can't hold.",
                hint=f'Say its price, in US dollars for a million tokens: [models."{self.unpriced_model}"] price = '
                "{ input = 1.0, output = 5.0 }. Or take the limit off: /limits cost 0.",
            )


def measure_messages(messages: Iterable[Message]) -> int:
    """Return the bytes of messages as they are sent, about as a provider counts them."""
    return sum(_measure_message(message) for message in messages)


def _measure_message(message: Message) -> int:
    match message:
        case UserMessage(content=content, attachments=shown) | ToolMessage(content=content, attachments=shown):
            return _count_bytes(content) + 16 + round(sum(map(estimate_tokens, shown)) * BYTES_PER_TOKEN)
        case AssistantMessage(wire=WireAnswer(items=items)):
            return len(encode_record(items)) + 16
        case AssistantMessage():
            calls = sum(len(call.name) + _count_bytes(call.arguments) + 32 for call in message.tool_calls)
            return _count_bytes(message.content) + calls + 16


def _count_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


class TokenMeter:
    """An estimate of tokens: about four bytes each, corrected by what the provider last counted for a known
    request."""

    def __init__(self) -> None:
        self._bytes_per_token = BYTES_PER_TOKEN
        self._counted: tuple[int, int, int] | None = None
        self._measured: list[Message] = []
        self._sizes = [0]

    def calibrate(self, prefix: int, messages: Sequence[Message], prompt_tokens: int) -> None:
        """Take in that the provider counted `prompt_tokens` for a prefix of `prefix` bytes and these messages."""
        if prompt_tokens <= 0:
            return
        size = prefix + self._measure_prefixes(messages)[-1]
        self._bytes_per_token = min(max(size / prompt_tokens, 1.0), 12.0)
        self._counted = (len(messages), prefix, prompt_tokens)

    def count_tokens(self, prefix: int, messages: Sequence[Message]) -> int:
        """Return the tokens of a request with these messages: what was counted, and an estimate of the rest."""
        sizes = self._measure_prefixes(messages)
        if self._counted and self._counted[0] <= len(messages) and self._counted[1] == prefix:
            return self._counted[2] + self.estimate(sizes[-1] - sizes[self._counted[0]])
        return self.estimate(prefix + sizes[-1])

    def _measure_prefixes(self, messages: Sequence[Message]) -> list[int]:
        """Return the bytes of the first 0, 1, 2 … messages, measured once for a growing history."""
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
    return _count_bytes(system) + len(msgspec.json.encode(tools))
