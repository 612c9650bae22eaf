"""What a turn may use, what it has used, and how full the model's window is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import is_

import msgspec

from core.attachments.tokens import tokens_of
from core.config import Limits
from core.errors import AgentTuiError
from core.protocol.messages import AssistantMessage, Message, ToolMessage, Usage, UserMessage, WireAnswer
from core.providers.base import ToolSpec
from core.sessions.usage import total
from core.wellformed import encoded

BYTES_PER_TOKEN = 4.0


class LimitReached(AgentTuiError):
    """A limit of the user's ends the turn; nothing went wrong."""

    code = "limit_reached"


class Spent:
    """What a turn has used so far. Raises `LimitReached` before a step that a limit forbids. What it uses counts for
    the turn that it is a part of (`whole`), too. `limits` gives those that hold now."""

    def __init__(self, limits: Callable[[], Limits], whole: Spent | None = None) -> None:
        self._limits = limits
        self._whole = whole
        self.steps = 0
        self.usage = Usage()
        self.unpriced = ""

    def add(self, usage: Usage, model: str = "") -> None:
        """`model`: the id of the one that used it, where that is known."""
        self.usage = total(self.usage, usage)
        if usage.cost is None and usage.prompt_tokens + usage.completion_tokens:
            self.miss_price(model or "the model")
        if self._whole is not None:
            self._whole.add(usage, model)

    def miss_price(self, model: str) -> None:
        """What this model took can't be counted in money."""
        self.unpriced = self.unpriced or model
        if self._whole is not None:
            self._whole.miss_price(model)

    def begin_step(self) -> int:
        """The number of the step that begins."""
        self.steps += 1
        if self._whole is not None:
            self._whole.begin_step()
        return self.steps

    def check_end(self) -> None:
        """To be called when a turn is done: its last step may have used more than there was."""
        limits, used = self._limits(), self.usage.prompt_tokens + self.usage.completion_tokens
        hint = "The answer is whole; raise it with /limits or `{}` in your configuration, or ask for less."
        if limits.max_tokens and used > limits.max_tokens:
            raise LimitReached(f"{used:,} tokens were used (max_tokens).", hint=hint.format("limits.max_tokens"))
        if limits.max_cost and (self.usage.cost or 0.0) > limits.max_cost:
            raise LimitReached(
                f"${self.usage.cost or 0.0:.2f} were used (max_cost).", hint=hint.format("limits.max_cost")
            )

    def check(self) -> None:
        """To be called before each step."""
        if self._whole is not None:
            self._whole.check()
        limits, used = self._limits(), self.usage.prompt_tokens + self.usage.completion_tokens
        hint = "Send another message to go on, or raise it with /limits or `{}` in your configuration."
        if limits.max_steps and self.steps >= limits.max_steps:
            raise LimitReached(f"Stopped after {self.steps} steps (max_steps).", hint=hint.format("limits.max_steps"))
        if limits.max_tokens and used >= limits.max_tokens:
            raise LimitReached(f"Stopped after {used:,} tokens (max_tokens).", hint=hint.format("limits.max_tokens"))
        if limits.max_cost and (self.usage.cost or 0.0) >= limits.max_cost:
            message = f"Stopped at a cost of ${self.usage.cost or 0.0:.2f} (max_cost)."
            raise LimitReached(message, hint=hint.format("limits.max_cost"))
        if limits.max_cost and self.unpriced:
            raise LimitReached(
                f"Stopped: what {self.unpriced} costs is not known, so max_cost (${limits.max_cost:.2f}) can't hold.",
                hint=f'Say its price, in US dollars for a million tokens: [models."{self.unpriced}"] price = '
                "{ input = 1.0, output = 5.0 }. Or take the limit off: /limits cost 0.",
            )


def size_of(messages: Iterable[Message]) -> int:
    """Bytes of messages as they are sent, about as a provider counts them."""
    return sum(_size(message) for message in messages)


def _size(message: Message) -> int:
    match message:
        case UserMessage(content=content, attachments=shown) | ToolMessage(content=content, attachments=shown):
            return _bytes(content) + 16 + round(sum(map(tokens_of, shown)) * BYTES_PER_TOKEN)
        case AssistantMessage(wire=WireAnswer(items=items)):
            return len(encoded(items)) + 16
        case AssistantMessage():
            calls = sum(len(call.name) + _bytes(call.arguments) + 32 for call in message.tool_calls)
            return _bytes(message.content) + calls + 16


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


class Meter:
    """Estimates tokens: about four bytes each, corrected by what the provider last counted for a known request."""

    def __init__(self) -> None:
        self._per_token = BYTES_PER_TOKEN
        self._counted: tuple[int, int, int] | None = None
        self._measured: list[Message] = []
        self._sizes = [0]

    def learn(self, prefix: int, messages: Sequence[Message], prompt_tokens: int) -> None:
        """The provider counted `prompt_tokens` for a prefix of `prefix` bytes and these messages."""
        if prompt_tokens <= 0:
            return
        size = prefix + self._reach(messages)[-1]
        self._per_token = min(max(size / prompt_tokens, 1.0), 12.0)
        self._counted = (len(messages), prefix, prompt_tokens)

    def tokens(self, prefix: int, messages: Sequence[Message]) -> int:
        """How many tokens a request with these messages will have: what was counted, and an estimate of the rest."""
        sizes = self._reach(messages)
        if self._counted and self._counted[0] <= len(messages) and self._counted[1] == prefix:
            return self._counted[2] + self.estimate(sizes[-1] - sizes[self._counted[0]])
        return self.estimate(prefix + sizes[-1])

    def _reach(self, messages: Sequence[Message]) -> list[int]:
        """The size of the first 0, 1, 2 … messages. What was measured for a history is used for a longer one."""
        if len(self._measured) > len(messages) or not all(map(is_, self._measured, messages)):
            self._measured, self._sizes = [], [0]
        for message in messages[len(self._measured) :]:
            self._measured.append(message)
            self._sizes.append(self._sizes[-1] + _size(message))
        return self._sizes

    def estimate(self, size: int) -> int:
        """Tokens of `size` bytes."""
        return round(size / self._per_token)

    def forget(self) -> None:
        """The history was replaced: what was counted for it no longer holds."""
        self._counted = None


def prefix_size(system: str, tools: Sequence[ToolSpec]) -> int:
    """Bytes of the stable prefix."""
    return _bytes(system) + len(msgspec.json.encode(tools))
