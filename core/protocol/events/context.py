"""Events of the context that the model is sent."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from core.protocol.events.base import Event
from core.protocol.messages import Message


class ContextMeasured(Event, frozen=True, kw_only=True, tag="context.measured"):
    """Tokens: `used` of `window` (0 = not known). `estimated`: counted by us, not by the provider.

    `dropped_reasoning`: answers whose reasoning was not sent with the request; `cache_miss`: why the provider's cache
    was not hit, "" = it was, or nothing is known.
    """

    used: int
    window: int
    estimated: bool = False
    dropped_reasoning: int = 0
    cache_miss: str = ""


class ContextCompacted(Event, frozen=True, kw_only=True, tag="context.compacted"):
    """The history is replaced by `messages`; what follows is appended to them."""

    messages: tuple[Message, ...]
    before_tokens: int
    after_tokens: int


class ReasoningDropped(Event, frozen=True, kw_only=True, tag="reasoning.dropped"):
    """The model's API no longer takes the reasoning of the answers so far: they go back without it from now on.

    `answers` is how many had any. What was said and done in them stays.
    """

    answers: int


class LoadedRule(Struct, frozen=True, kw_only=True):
    path: str
    kind: Literal["always", "globs", "agents_md", "user"]
    note: str = ""


class RulesLoaded(Event, frozen=True, kw_only=True, tag="rules.loaded"):
    rules: tuple[LoadedRule, ...]
