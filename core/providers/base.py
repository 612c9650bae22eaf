"""The language of every provider: a request in, a stream of normalised deltas out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

from msgspec import Struct

from core.errors import StateError
from core.protocol.messages import Message, Usage, WireAnswer

FinishReason = Literal["stop", "tool_calls", "length", "refused", "context_full", "paused"]


class ToolSpec(Struct, frozen=True, kw_only=True):
    """A tool as the model is told of it; `parameters`: a JSON Schema object; `freeform`: the one argument that a model
    may write as free text where its API has such tools, "" = none."""

    name: str
    description: str
    parameters: dict[str, Any]
    freeform: str = ""


def refuse_blob(digest: str) -> bytes:
    """The attachments of a request that has none."""
    raise StateError(f"The bytes of an attachment ({digest[:12]}) are not there.", hint="Attach it again.")


class HostedSearch(Struct, frozen=True):
    """The wish that the API searches the web for an answer. `allowed`: pages of these domains alone, none = of any;
    `blocked`: no pages of these."""

    allowed: tuple[str, ...] = ()
    blocked: tuple[str, ...] = ()


class ModelRequest(Struct, frozen=True, kw_only=True):
    """One model call. `system`, `tools` and the head of `messages` are the stable prefix that caches hit.

    `max_tokens` bounds the answer, 0 = the provider's default. `session` is a stable key for cache routing. `effort`:
    one that the model has (see `Capabilities`), "" = its default. `blobs` gives an attachment's bytes.
    `private`: the API is asked to keep nothing, and told nothing that names the session. `search`: the API's own search
    of the web, for a `SearchingProvider` alone.
    """

    model: str
    system: str
    tools: tuple[ToolSpec, ...]
    messages: tuple[Message, ...]
    max_tokens: int = 0
    temperature: float | None = None
    effort: str = ""
    session: str = ""
    blobs: Callable[[str], bytes] = refuse_blob
    private: bool = False
    search: HostedSearch | None = None


class TextDelta(Struct, frozen=True):
    text: str


class ReasoningDelta(Struct, frozen=True):
    """Reasoning as it can be shown. `index` numbers the reasoning blocks of one answer."""

    text: str = ""
    signature: str = ""
    redacted: str = ""
    index: int = 0


class ToolCallDelta(Struct, frozen=True):
    """`index` numbers the calls of one answer; `id` and `name` come once, `arguments` in pieces."""

    index: int
    id: str = ""
    name: str = ""
    arguments: str = ""


class UsageReport(Struct, frozen=True):
    """The latest count of this call's tokens; a later one replaces an earlier one."""

    usage: Usage


class RequestReport(Struct, frozen=True, kw_only=True):
    """The fate of a request. `dropped_reasoning`: answers of the history whose reasoning was void and not sent;
    `cache_miss`: why the API's cache was not hit, "" = nothing known; `notice`: what the user is to be told, once."""

    dropped_reasoning: int = 0
    cache_miss: str = ""
    notice: str = ""


class AnswerReport(Struct, frozen=True):
    """The whole answer as it came; just before `StreamEnd`, from a wire that wants it back."""

    wire: WireAnswer


class StreamEnd(Struct, frozen=True):
    """Always the last delta. A stream that ends without it was cut."""

    reason: FinishReason


Delta = TextDelta | ReasoningDelta | ToolCallDelta | UsageReport | RequestReport | AnswerReport | StreamEnd


class ModelInfo(Struct, frozen=True, kw_only=True):
    """`context_window` in tokens, 0 = not known."""

    name: str
    context_window: int = 0


@runtime_checkable
class EmbeddingProvider(Protocol):
    """A model API that gives vectors of texts."""

    async def embed(self, model: str, texts: Sequence[str]) -> list[list[float]]:
        """Return the vector of each text, in their order. Raises `ProviderError`."""


class Provider(Protocol):
    """One model API. Errors are `ProviderError` (with `retryable`) or `ContextOverflow`, never an SDK's own. Retrying
    is the loop's, visibly."""

    name: str

    def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
        """One call. Closing the iterator ends the connection."""

    async def list_models(self) -> tuple[ModelInfo, ...]:
        """The models that the API lists."""

    async def close(self) -> None:
        """Release connections. Safe to call twice."""


@runtime_checkable
class SearchingProvider(Protocol):
    """A model API that may have a search of the web of its own."""

    def can_search(self, model: str) -> bool:
        """True if a request with `search` to this model would be understood, as far as is known."""


class Suggestion(Struct, frozen=True, kw_only=True):
    """A suggestion of what the user may say next, and the mode for it ("" = any)."""

    text: str
    mode: str = ""


@runtime_checkable
class SuggestingProvider(Protocol):
    """A provider that knows what the user may say next."""

    def suggest(self, messages: Sequence[Message]) -> Suggestion | None: ...
