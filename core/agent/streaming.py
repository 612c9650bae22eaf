"""One model call: a stream of deltas becomes documents as it flows, and an answer at its end.

Nothing of an answer acts before the answer is complete: tool calls are only collected here.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from msgspec import Struct

from core.agent.call_documents import Ended, decoded, document_of, kind_of
from core.agent.documents import Documents, Opened, Speech
from core.agent.session import SessionContext
from core.errors import ProviderError, ToolInputInvalid
from core.ids import new_id
from core.protocol.messages import AssistantMessage, ReasoningBlock, ToolCall, Usage
from core.providers.base import (
    Delta,
    Finished,
    FinishReason,
    ModelRequest,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    UsageReport,
)
from core.tools.base import ToolType
from core.tools.registry import find_tool

CLOSING_PATIENCE = 0.1  # seconds
BREATH = 32  # deltas after which the event loop gets a turn, whatever the provider does
MAX_CALLS = 128
_NO_NAME = re.compile(r"[^A-Za-z0-9_-]")
MAX_ARGUMENTS = 10_000_000  # characters


@asynccontextmanager
async def closed_after(stream: AsyncIterator[Delta]) -> AsyncIterator[AsyncIterator[Delta]]:
    """The stream, closed at the end; a connection that does not close in time is left to itself."""
    try:
        yield stream
    finally:
        close = getattr(stream, "aclose", None)
        if close is not None:
            closing = asyncio.ensure_future(close())
            await asyncio.wait({closing}, timeout=CLOSING_PATIENCE)
            if closing.done() and not closing.cancelled():
                closing.exception()


class Draft(Struct, kw_only=True):
    """One tool call as it comes in. `id` is the provider's, `call` is ours and unique."""

    index: int
    id: str
    call: str
    opened: Opened
    name: str
    arguments: list[str]
    size: int = 0

    def text(self) -> str:
        return "".join(self.arguments)

    def continues(self, delta: ToolCallDelta) -> bool:
        """Whether a piece with the same index belongs here: not when it brings another id, or a name once more."""
        if delta.id and self.id:
            return delta.id == self.id
        return not (delta.name and self.name)


class Answer(Struct, frozen=True, kw_only=True):
    """A complete answer. `calls` pair with `message.tool_calls`."""

    message: AssistantMessage
    calls: tuple[tuple[ToolCall, Opened], ...]
    reason: FinishReason
    usage: Usage


class Reception:
    """One attempt at one model call."""

    def __init__(self, session: SessionContext, documents: Documents) -> None:
        self._session = session
        self._documents = documents
        self._speech = Speech(documents)
        self._text: list[str] = []
        self._reasoning: dict[int, ReasoningBlock] = {}
        self._thoughts: dict[int, list[str]] = {}
        self._drafts: list[Draft] = []
        self._reason: FinishReason | None = None
        self.usage = Usage()
        documents.begin_attempt()

    async def receive(self, request: ModelRequest) -> Answer:
        """Raises `ProviderError`; a stream that ends without a word was cut, and may be tried again."""
        count = 0
        async with closed_after(self._session.route.provider.stream(request)) as stream:
            async for delta in stream:
                self._take(delta)
                count += 1
                if count % BREATH == 0:
                    await asyncio.sleep(0)
        if self._reason is None:
            raise ProviderError("The model's answer was cut off.", code="stream_cut", retryable=True)
        self._speech.close()
        return self._answer(self._reason)

    def _take(self, delta: Delta) -> None:
        match delta:
            case TextDelta(text):
                self._text.append(text)
                self._speech.text(text)
            case ReasoningDelta():
                self._think(delta)
            case ToolCallDelta():
                self._call(delta)
            case UsageReport(usage):
                self.usage = self._session.priced(self._session.route, usage)
            case Finished(reason):
                self._reason = reason

    def _think(self, delta: ReasoningDelta) -> None:
        block = self._reasoning.get(delta.index, ReasoningBlock())
        self._thoughts.setdefault(delta.index, []).append(delta.text)
        self._reasoning[delta.index] = ReasoningBlock(
            signature=block.signature + delta.signature, redacted=block.redacted + delta.redacted
        )
        self._speech.reasoning(delta.text, delta.index)

    def _call(self, delta: ToolCallDelta) -> None:
        draft = self._draft(delta)
        if delta.arguments:
            draft.arguments.append(delta.arguments)
            draft.size += len(delta.arguments)
            self._documents.delta(draft.opened, delta.arguments)
        if draft.size > MAX_ARGUMENTS or len(self._drafts) > MAX_CALLS:
            raise ProviderError("The model's tool calls are too large to be run.", code="answer_too_large")

    def _draft(self, delta: ToolCallDelta) -> Draft:
        """The call that a piece belongs to. Servers exist that number all of their calls 0: a new id is a new call."""
        for draft in reversed(self._drafts):
            if draft.index == delta.index and draft.continues(delta):
                draft.id, draft.name = draft.id or delta.id, draft.name or delta.name
                return draft
        self._speech.close()
        opened = self._documents.open(kind_of(_tool(delta.name)), title=_sendable(delta.name))
        draft = Draft(index=delta.index, id=delta.id, call=new_id("call"), opened=opened, name=delta.name, arguments=[])
        self._drafts.append(draft)
        return draft

    def _answer(self, reason: FinishReason) -> Answer:
        calls = tuple(
            (ToolCall(id=draft.call, name=_sendable(draft.name), arguments=draft.text()), draft.opened)
            for draft in self._drafts
        )
        reasoning = tuple(
            ReasoningBlock(text="".join(self._thoughts[index]), signature=block.signature, redacted=block.redacted)
            for index, block in sorted(self._reasoning.items())
        )
        message = AssistantMessage(
            content="".join(self._text),
            reasoning=reasoning,
            tool_calls=tuple(call for call, _ in calls),
            model=self._session.route.id,
        )
        return Answer(message=message, calls=calls, reason=reason, usage=self.usage)

    def abandon(self, why: str) -> AssistantMessage | None:
        """The attempt is over and won't be repeated: what was said stays, marked as interrupted; calls do not.

        None: nothing was said.
        """
        self._speech.close()
        for draft in self._drafts:
            self._documents.finish(document_of(_unfinished(draft, why)))
        content = "".join(self._text)
        if not content.strip():
            return None
        return AssistantMessage(content=content, model=self._session.route.id, interrupted=True)


def _sendable(name: str) -> str:
    """A name that every provider takes back: letters, digits, `_` and `-`, at most 64."""
    return _NO_NAME.sub("_", name)[:64] or "unnamed"


def _tool(name: str) -> ToolType | None:
    try:
        return find_tool(name)
    except ToolInputInvalid:
        return None


def _unfinished(draft: Draft, why: str) -> Ended:
    return Ended(
        opened=draft.opened,
        tool=_sendable(draft.name),
        call=draft.call,
        arguments=decoded(draft.text()),
        succeeded=False,
        text=f"Not run: {why}",
        summary="not run",
        duration_ms=draft.opened.duration_ms(),
    )


def truncated_call(answer: Answer) -> str:
    """The id of the call that the length limit cut, "" = none."""
    return answer.calls[-1][0].id if answer.reason == "length" and answer.calls else ""
