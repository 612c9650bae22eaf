"""The interface of all providers: a request in, a stream of normalised deltas out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

from msgspec import Struct

from core.errors import StateError
from core.protocol.messages import EffortMessage, Message, ServiceTier, Usage, WireAnswer

FinishReason = Literal["stop", "tool_calls", "length", "refused", "context_full", "paused"]
CacheChoice = Literal["", "prefix", "all"]


class ToolSpec(Struct, frozen=True, kw_only=True):
    """A tool as it is described to the model. `parameters` is a JSON Schema object; `freeform` names the argument that
    may be written as free text where the API has such tools, "" = none; `grammar` is that of the text in Lark, "" = any
    text; `finds_tools`: its results are tools, which the API loads where it can."""

    name: str
    description: str
    parameters: dict[str, Any]
    freeform: str = ""
    grammar: str = ""
    finds_tools: bool = False


def refuse_blob(digest: str) -> bytes:
    """Raise `StateError`: a request without attachments has no blobs."""
    raise StateError(f"The bytes of an attachment ({digest[:12]}) are missing.", hint="Attach it again.")


class HostedSearch(Struct, frozen=True):
    """A request for the API's own web search. `allowed`: only pages of these domains, () = of any; `blocked`: no pages
    of these."""

    allowed: tuple[str, ...] = ()
    blocked: tuple[str, ...] = ()


class AnswerForm(Struct, frozen=True):
    """The JSON Schema, of an object, under which an answer has to be valid. `is_alone`: nothing but this answer is
    wanted, so no tool is called."""

    schema: dict[str, Any]
    is_alone: bool = False


class ModelRequest(Struct, frozen=True, kw_only=True):
    """One model call. `system`, `tools` and the head of `messages` are the stable prefix that prompt caches hit.

    `max_tokens` bounds the answer, 0 = the provider's default. `session` is a stable key for cache routing. `effort` is
    one that the model has (see `Capabilities`), "" = its default; so is `tier`, "" = standard. `blobs` returns the
    bytes of an attachment by its digest. `private`: the API is asked to store nothing, and gets nothing that identifies
    the session. `search`: the API's own web search, for a `SearchingProvider` only. `cache`: what the API's cache
    should keep for long if it can: nothing, the prefix, or everything. `answer`: the form of the answer, see
    `choose_form`.
    """

    model: str
    system: str
    tools: tuple[ToolSpec, ...]
    messages: tuple[Message, ...]
    max_tokens: int = 0
    temperature: float | None = None
    effort: str = ""
    tier: ServiceTier | Literal[""] = ""
    session: str = ""
    blobs: Callable[[str], bytes] = refuse_blob
    private: bool = False
    search: HostedSearch | None = None
    cache: CacheChoice = ""
    answer: AnswerForm | None = None

    def choose_form(self, *, leaves_calls: bool) -> AnswerForm | None:
        """Return the form that a server is asked to hold the answer to. `leaves_calls`: it binds the text alone. Many
        servers hold to it from the first word on, so a model could call no tool: those are asked only where none may be
        called."""
        is_safe = leaves_calls or not self.tools or (self.answer is not None and self.answer.is_alone)
        return self.answer if is_safe else None

    @property
    def base_effort(self) -> str:
        """The effort at the beginning of the conversation, if its messages lead from there to `effort`."""
        changes = [message for message in self.messages if isinstance(message, EffortMessage)]
        return changes[0].before if changes and changes[-1].effort == self.effort else self.effort


class TextDelta(Struct, frozen=True):
    text: str


class ReasoningDelta(Struct, frozen=True):
    """Visible reasoning. `index` numbers the reasoning blocks of one answer."""

    text: str = ""
    signature: str = ""
    redacted: str = ""
    index: int = 0


class ToolCallDelta(Struct, frozen=True):
    """A piece of a tool call. `index` numbers the calls of one answer; `id` and `name` come once, `arguments` in
    pieces."""

    index: int
    id: str = ""
    name: str = ""
    arguments: str = ""


class PromptProgress(Struct, frozen=True):
    """The server has read `processed` of the `total` tokens of the prompt."""

    processed: int
    total: int


class UsageReport(Struct, frozen=True):
    """The latest count of this call's tokens; a later report replaces an earlier one."""

    usage: Usage


class RequestReport(Struct, frozen=True, kw_only=True):
    """The outcome of a request. `dropped_reasoning`: answers of the history whose reasoning was void and not sent;
    `removed_reasoning`: pieces of it that the API removed itself, and `removal` why; `cache_miss`: why the API's cache
    was not hit, "" = unknown; `notice`: a message for the user, sent once."""

    dropped_reasoning: int = 0
    removed_reasoning: int = 0
    removal: str = ""
    cache_miss: str = ""
    notice: str = ""


class AnswerReport(Struct, frozen=True):
    """The unchanged answer, just before `StreamEnd`, from a wire that needs it back in the next request."""

    wire: WireAnswer


class StreamEnd(Struct, frozen=True):
    """The last delta of every complete stream. A stream without it was cut."""

    reason: FinishReason


Delta = (
    TextDelta | ReasoningDelta | ToolCallDelta | PromptProgress | UsageReport | RequestReport | AnswerReport | StreamEnd
)


class ModelInfo(Struct, frozen=True, kw_only=True):
    """`context_window` in tokens, 0 = not known."""

    name: str
    context_window: int = 0


@runtime_checkable
class EmbeddingProvider(Protocol):
    """A model API that computes embeddings."""

    async def embed(self, model: str, texts: Sequence[str]) -> list[list[float]]:
        """Return the vector of every text, in their order. Raises `ProviderError`."""


class Provider(Protocol):
    """One model API. Errors are `ProviderError` (with `retryable`) or `ContextOverflow`, never an SDK's own. The agent
    loop retries, so that the user sees it."""

    name: str

    def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
        """Make one call. Closing the iterator ends the connection."""

    async def list_models(self) -> tuple[ModelInfo, ...]:
        """Return the models that the API lists."""

    async def close(self) -> None:
        """Release connections. Safe to call twice."""


@runtime_checkable
class SearchingProvider(Protocol):
    """A model API that may have its own web search."""

    def can_search(self, model: str) -> bool:
        """Return True if, as far as is known, the model understands a request with `search`."""


class CompactedHistory(Struct, frozen=True, kw_only=True):
    """The summary that an API made of a history. `items`: what stands for the history from now on, unchanged; `text`:
    the summary if it can be read, else ""; `is_first`: nothing may be before it in a request."""

    items: tuple[dict[str, Any], ...]
    text: str = ""
    usage: Usage = Usage()
    is_first: bool = False


@runtime_checkable
class CompactingProvider(Protocol):
    """A model API that may summarise a history itself."""

    async def compact(self, request: ModelRequest) -> CompactedHistory:
        """Return the summary of a request's messages. Raises `ProviderError`."""


@runtime_checkable
class WarmingProvider(Protocol):
    """A model API that may read a request into its cache without an answer."""

    async def warm_up(self, request: ModelRequest) -> Usage:
        """Have the API read a request, and return what that used. Raises `ProviderError`."""


@runtime_checkable
class LearningProvider(Protocol):
    """A model API that may say what a model can do before it is asked anything."""

    async def learn(self, model: str, *, private: bool = False, load: bool = False) -> None:
        """Take in what the server says of a model now. `private`: nothing of it is saved; `load`: a server that only
        knows the window of a loaded model loads it."""


class Suggestion(Struct, frozen=True, kw_only=True):
    """A suggestion for the user's next prompt, and the mode for it ("" = any)."""

    text: str
    mode: str = ""


@runtime_checkable
class SuggestingProvider(Protocol):
    """A provider that can suggest the user's next prompt."""

    def suggest(self, messages: Sequence[Message]) -> Suggestion | None: ...
