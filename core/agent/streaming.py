"""One model call: a stream of deltas becomes documents as it flows, and an answer at its end.

Nothing of an answer acts before the answer is complete: tool calls are only collected here.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from msgspec import Struct
from msgspec.structs import replace

from core.agent.call_documents import Ended, decoded, document_of, kind_of
from core.agent.documents import Documents, Opened, Speech
from core.agent.edit_calls import twice
from core.agent.session import SessionContext
from core.dialects.base import CallBegun, CallEnded, Dialect, Heard, Said
from core.errors import ProviderError, ToolInputInvalid
from core.ids import new_id
from core.protocol.events import Notice
from core.protocol.messages import AssistantMessage, ReasoningBlock, ToolCall, Usage, WireAnswer
from core.providers.base import (
    Answered,
    Delta,
    Finished,
    FinishReason,
    ModelRequest,
    ReasoningDelta,
    RequestReport,
    TextDelta,
    ToolCallDelta,
    UsageReport,
)
from core.tools.base import ToolType
from core.tools.registry import find_tool
from core.wellformed import Halves

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
    """One tool call as it comes in. `id` is the provider's, `call` is ours and unique.

    Calls that stand in the text have an index below zero. `problem`: why it must not be run.
    """

    index: int
    id: str
    call: str
    opened: Opened
    name: str
    arguments: list[str]
    size: int = 0
    problem: str = ""

    def text(self) -> str:
        return "".join(self.arguments)

    def continues(self, delta: ToolCallDelta) -> bool:
        """Whether a piece with the same index belongs here: not when it brings another id, or a name once more."""
        if delta.id and self.id:
            return delta.id == self.id
        return not (delta.name and self.name)


class Answer(Struct, frozen=True, kw_only=True):
    """A complete answer. `calls` pair with `message.tool_calls`; `problems` says by id which must not be run, and why.

    `problem`: what the model is to be told of the form of its answer. `over`: it says that it is done.
    """

    message: AssistantMessage
    calls: tuple[tuple[ToolCall, Opened], ...]
    reason: FinishReason
    usage: Usage
    problems: Mapping[str, str]
    problem: str = ""
    over: bool = False
    report: RequestReport = RequestReport()

    @property
    def goes_back(self) -> bool:
        """Whether it is to be sent back though it says nothing: its server paused, and goes on from it."""
        return self.reason == "paused" and self.message.wire is not None


class Reception:
    """One attempt at one model call."""

    def __init__(self, session: SessionContext, documents: Documents, dialect: Dialect) -> None:
        self._session = session
        self._dialect = dialect
        self._listener = dialect.listener(job=session.job_in_front)
        self._documents = documents
        self._speech = Speech(documents)
        self._text: list[str] = []
        self._reasoning: dict[int, ReasoningBlock] = {}
        self._thoughts: dict[int, list[str]] = {}
        self._drafts: list[Draft] = []
        self._reason: FinishReason | None = None
        self._wire: WireAnswer | None = None
        self.report = RequestReport()
        self._halves = Halves()
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
        self._end_halves()
        self._hear(self._listener.finish())
        self._speech.close()
        return self._answer(self._reason)

    def _take(self, delta: Delta) -> None:
        match delta:
            case TextDelta(text):
                self._say(self._halves.join("text", text))
            case ReasoningDelta(text=text, index=index):
                self._think(replace(delta, text=self._halves.join(("thought", index), text)))
            case ToolCallDelta(index=index, arguments=arguments):
                self._call(replace(delta, arguments=self._halves.join(("call", index), arguments)))
            case UsageReport(usage):
                self.usage = self._session.priced(self._session.route, usage)
            case Answered(wire):
                self._wire = wire
            case RequestReport(notice=notice):
                self.report = delta
                if notice:
                    self._session.emit(Notice(level="info", message=notice))
            case Finished(reason):
                self._reason = reason

    def _say(self, text: str) -> None:
        self._text.append(text)
        self._hear(self._listener.feed(text))

    def _end_halves(self) -> None:
        """Halves of characters whose other half never came."""
        for key in self._halves.waiting():
            match key:
                case ("thought", int(index)):
                    self._think(ReasoningDelta(self._halves.rest(key), index=index))
                case ("call", int(index)):
                    self._call(ToolCallDelta(index, arguments=self._halves.rest(key)))
                case _:
                    self._say(self._halves.rest(key))

    def _hear(self, heard: Sequence[Heard]) -> None:
        for each in heard:
            match each:
                case Said(text):
                    self._speech.text(text)
                case CallBegun(index, name):
                    self._begin(-1 - index, "", name)
                case CallEnded():
                    draft = next(draft for draft in self._drafts if draft.index == -1 - each.index)
                    draft.name, draft.problem = each.name, each.problem
                    self._add(draft, each.arguments)

    def _think(self, delta: ReasoningDelta) -> None:
        block = self._reasoning.get(delta.index, ReasoningBlock())
        self._thoughts.setdefault(delta.index, []).append(delta.text)
        self._reasoning[delta.index] = ReasoningBlock(
            signature=block.signature + delta.signature, redacted=block.redacted + delta.redacted
        )
        self._speech.reasoning(delta.text, delta.index)

    def _call(self, delta: ToolCallDelta) -> None:
        self._add(self._draft(delta), delta.arguments)

    def _add(self, draft: Draft, arguments: str) -> None:
        if arguments:
            draft.arguments.append(arguments)
            draft.size += len(arguments)
            self._documents.delta(draft.opened, arguments)
        if draft.size > MAX_ARGUMENTS or len(self._drafts) > MAX_CALLS:
            raise ProviderError("The model's tool calls are too large to be run.", code="answer_too_large")

    def _draft(self, delta: ToolCallDelta) -> Draft:
        """The call that a piece belongs to. Servers exist that number all of their calls 0: a new id is a new call."""
        for draft in reversed(self._drafts):
            if draft.index == delta.index and draft.continues(delta):
                draft.id, draft.name = draft.id or delta.id, draft.name or delta.name
                return draft
        return self._begin(delta.index, delta.id, delta.name)

    def _begin(self, index: int, identity: str, name: str) -> Draft:
        self._speech.close()
        opened = self._documents.open(kind_of(_tool(name)), title=_sendable(name))
        draft = Draft(index=index, id=identity, call=new_id("call"), opened=opened, name=name, arguments=[])
        self._drafts.append(draft)
        return draft

    def _answer(self, reason: FinishReason) -> Answer:
        ending = self._listener.ending
        if ending.problem:
            self._drop_calls_of_text()
        calls = tuple(
            (
                ToolCall(id=draft.call, name=_sendable(draft.name), arguments=draft.text(), wire_id=draft.id),
                draft.opened,
            )
            for draft in self._drafts
        )
        native = self._dialect.name == "native"
        in_text = [draft.call for draft in self._drafts if draft.index < 0]
        problems = {draft.call: draft.problem for draft in self._drafts if draft.problem}
        if native:
            problems |= twice([call for call, _ in calls], set(in_text))
        reasoning = tuple(
            ReasoningBlock(text="".join(self._thoughts[index]), signature=block.signature, redacted=block.redacted)
            for index, block in sorted(self._reasoning.items())
        )
        message = AssistantMessage(
            content="".join(self._text),
            reasoning=reasoning,
            tool_calls=tuple(call for call, _ in calls),
            model=self._session.route.id,
            dialect=self._dialect.name if in_text and not native else "",
            in_text=tuple(in_text) if native else (),
            wire=self._wire,
        )
        return Answer(
            message=message,
            calls=calls,
            reason=reason,
            usage=self.usage,
            problems=problems,
            problem=ending.problem,
            over=ending.over,
            report=self.report,
        )

    def _drop_calls_of_text(self) -> None:
        """The answer has no valid form: none of the calls in its text is one."""
        for draft in self._drafts:
            if draft.index < 0:
                self._documents.finish(document_of(_unfinished(draft, "the answer was not in the form asked for.")))
        self._drafts = [draft for draft in self._drafts if draft.index >= 0]

    def abandon(self, why: str) -> AssistantMessage | None:
        """The attempt is over and won't be repeated: what was said stays, marked as interrupted; calls do not.

        None: nothing was said.
        """
        self._end_halves()
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
    cut = answer.reason in {"length", "context_full"}
    last = answer.calls[-1][0].id if cut and answer.calls else ""
    return "" if last in answer.message.in_text else last
