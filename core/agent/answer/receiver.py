"""The receiver of one model call: a stream of deltas becomes documents as it arrives, and an answer at its end.

Nothing of an answer acts before the answer is complete: tool calls are only collected here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

from msgspec import Struct, field
from msgspec.structs import replace

from core.agent.answer.call_documents import FinishedCall, build_document, decode_arguments, get_document_kind
from core.agent.answer.documents import AnswerDocuments, OpenDocument, TurnDocuments
from core.agent.base.routes import Route, TurnRoutes
from core.dialects.dialect import AnswerParser, AnswerPart, AnswerText, CallFinished, CallStarted, Dialect
from core.errors import AgentTuiError, ProviderError, ToolInputInvalid
from core.ids import new_id
from core.modes import Access
from core.patterns import compile_lazily
from core.protocol.events import AnyEvent, Notice, PromptRead
from core.protocol.messages import AssistantMessage, ReasoningBlock, ToolCall, Usage, WireAnswer
from core.providers.base import (
    AnswerReport,
    Delta,
    FinishReason,
    ModelRequest,
    PromptProgress,
    ReasoningDelta,
    RequestReport,
    StreamEnd,
    TextDelta,
    ToolCallDelta,
    UsageReport,
)
from core.text.json_repairs import extract_call_name, repair_arguments
from core.text.well_formed import SurrogateJoiner
from core.tools.base import ToolType
from core.tools.toolset import Toolset

EDITED_TWICE = "Not applied: the same answer edits {} with a tool call. The edits in the text changed nothing."
CLOSING_PATIENCE = 0.1  # seconds
YIELD_EVERY = 32  # deltas after which the event loop gets a turn, whatever the provider does
MAX_CALLS = 128
_CUT_REASONS = frozenset({"length", "context_full"})
_NOT_IN_NAME = compile_lazily(r"[^A-Za-z0-9_-]")
MAX_ARGUMENTS = 10_000_000  # characters


def is_edit_call(tools: Toolset, call: ToolCall) -> bool:
    """True if the tool of a call edits files."""
    try:
        return tools.find(call.name).access is Access.PROPOSE
    except AgentTuiError:
        return False


def find_double_edits(tools: Toolset, calls: list[ToolCall], in_text: set[str]) -> dict[str, str]:
    """Return error texts, by call id, for calls in the text whose file the same answer edits by a function call."""
    edited_paths = {path for call in calls if call.id not in in_text for path in _list_paths(tools, call)}
    common_paths = {call.id: sorted(edited_paths & _list_paths(tools, call)) for call in calls if call.id in in_text}
    return {identity: EDITED_TWICE.format(", ".join(paths)) for identity, paths in common_paths.items() if paths}


def _list_paths(tools: Toolset, call: ToolCall) -> set[str]:
    try:
        return set(tools.parse(call.name, call.arguments).paths()) if is_edit_call(tools, call) else set()
    except AgentTuiError:
        return set()


@asynccontextmanager
async def closing_stream(stream: AsyncIterator[Delta]) -> AsyncIterator[AsyncIterator[Delta]]:
    """Yield the stream and close it at the end, waiting at most `CLOSING_PATIENCE`."""
    try:
        yield stream
    finally:
        close = getattr(stream, "aclose", None)
        if close is not None:
            closing = asyncio.ensure_future(close())
            await asyncio.wait({closing}, timeout=CLOSING_PATIENCE)
            if closing.done() and not closing.cancelled():
                closing.exception()


class CallDraft(Struct, kw_only=True):
    """One tool call while it is received. `id` is the provider's, `call` is ours and unique.

    Calls that are written in the text have an index below zero. `problem`: the reason why it must not run, "" = none.
    """

    index: int
    id: str
    call: str
    document: OpenDocument
    name: str
    arguments: list[str]
    size: int = 0
    problem: str = ""

    def build_call(self) -> ToolCall:
        arguments = repair_arguments("".join(self.arguments))
        return ToolCall(id=self.call, name=_sanitize_name(self.name), arguments=arguments, wire_id=self.id)

    def is_continued_by(self, delta: ToolCallDelta) -> bool:
        """True if a piece with the same index belongs to this call: it has no other id, and no second name."""
        if delta.id and self.id:
            return delta.id == self.id
        return not (delta.name and self.name)


class ModelAnswer(Struct, frozen=True, kw_only=True):
    """A complete answer. `calls` pair with `message.tool_calls`; `problems`: by id, the reason why a call must not run.

    `problem`: an error in the form of the answer, "" = none. `is_over`: the answer declares the work done. `cut_call`:
    the id of the call that the length limit cut, "" = none.
    """

    message: AssistantMessage
    calls: tuple[tuple[ToolCall, OpenDocument], ...]
    reason: FinishReason
    usage: Usage
    problems: Mapping[str, str]
    problem: str = ""
    is_over: bool = False
    cut_call: str = ""
    report: RequestReport = RequestReport()

    @property
    def is_resumable(self) -> bool:
        """True if it must be sent back although it may be empty: its server paused and continues from it."""
        return self.reason == "paused" and self.message.wire is not None


class AnswerReceiver(Struct, eq=False):
    """The receiver of one attempt at one model call. `first_document`: the number of documents before it."""

    _routes: TurnRoutes
    _route: Route
    _documents: TurnDocuments
    _dialect: Dialect
    _parser: AnswerParser
    _tools: Toolset
    _emit: Callable[[AnyEvent], None]
    _answer_documents: AnswerDocuments
    first_document: int
    usage: Usage = field(default_factory=Usage)
    _report: RequestReport = field(default_factory=RequestReport)
    _text: list[str] = field(default_factory=list)
    _reasoning: dict[int, ReasoningBlock] = field(default_factory=dict)
    _thoughts: dict[int, list[str]] = field(default_factory=dict)
    _drafts: list[CallDraft] = field(default_factory=list)
    _reason: FinishReason | None = None
    _wire: WireAnswer | None = None
    _surrogates: SurrogateJoiner = field(default_factory=SurrogateJoiner)

    async def receive(self, request: ModelRequest) -> ModelAnswer:
        """Receive the answer. Raises `ProviderError`; a stream without an end was cut, and may be retried."""
        count = 0
        async with closing_stream(self._route.provider.stream(request)) as stream:
            async for delta in stream:
                self._handle_delta(delta)
                count += 1
                if count % YIELD_EVERY == 0:
                    await asyncio.sleep(0)
        if self._reason is None:
            raise ProviderError("The model's answer was cut off.", code="stream_cut", retryable=True)
        self._flush_surrogates()
        self._handle_parts(self._parser.finish())
        self._answer_documents.close()
        return self._build_answer(self._reason)

    def _handle_delta(self, delta: Delta) -> None:
        match delta:
            case TextDelta(text):
                self._add_text(self._surrogates.join("text", text))
            case ReasoningDelta(text=text, index=index):
                self._add_reasoning(replace(delta, text=self._surrogates.join(("thought", index), text)))
            case ToolCallDelta(index=index, arguments=arguments):
                self._add_call_delta(replace(delta, arguments=self._surrogates.join(("call", index), arguments)))
            case UsageReport(usage):
                self.usage = self._routes.add_cost(self._route, usage)
            case PromptProgress(processed, total):
                self._emit(PromptRead(processed=processed, total=total))
            case AnswerReport(wire):
                self._wire = wire
            case RequestReport(notice=notice):
                self._report = delta
                if notice:
                    self._emit(Notice(level="info", message=notice))
            case StreamEnd(reason):
                self._reason = reason

    def _add_text(self, text: str) -> None:
        self._text.append(text)
        self._handle_parts(self._parser.feed(text))

    def _flush_surrogates(self) -> None:
        """Flush surrogates whose second half is missing."""
        for key in list(self._surrogates.waiting):
            match key:
                case ("thought", int(index)):
                    self._add_reasoning(ReasoningDelta(self._surrogates.flush(key), index=index))
                case ("call", int(index)):
                    self._add_call_delta(ToolCallDelta(index, arguments=self._surrogates.flush(key)))
                case _:
                    self._add_text(self._surrogates.flush(key))

    def _handle_parts(self, parts: Sequence[AnswerPart]) -> None:
        for part in parts:
            match part:
                case AnswerText(text):
                    self._answer_documents.add_text(text)
                case CallStarted(index, name):
                    self._begin_call(-1 - index, "", name)
                case CallFinished():
                    draft = next(draft for draft in self._drafts if draft.index == -1 - part.index)
                    draft.name, draft.problem = part.name, part.problem
                    self._append_arguments(draft, part.arguments)

    def _add_reasoning(self, delta: ReasoningDelta) -> None:
        block = self._reasoning.get(delta.index, ReasoningBlock())
        self._thoughts.setdefault(delta.index, []).append(delta.text)
        self._reasoning[delta.index] = ReasoningBlock(
            signature=block.signature + delta.signature, redacted=block.redacted + delta.redacted
        )
        self._answer_documents.add_reasoning(delta.text, delta.index)

    def _add_call_delta(self, delta: ToolCallDelta) -> None:
        self._append_arguments(self._find_draft(delta), delta.arguments)

    def _append_arguments(self, draft: CallDraft, arguments: str) -> None:
        if arguments:
            draft.arguments.append(arguments)
            draft.size += len(arguments)
            self._documents.add_delta(draft.document, arguments)
        if draft.size > MAX_ARGUMENTS or len(self._drafts) > MAX_CALLS:
            raise ProviderError("The model's tool calls are too large to run.", code="answer_too_large")

    def _find_draft(self, delta: ToolCallDelta) -> CallDraft:
        """Return the call that a piece belongs to. Some servers give all calls the index 0: a new id is a new call."""
        for draft in reversed(self._drafts):
            if draft.index == delta.index and draft.is_continued_by(delta):
                draft.id, draft.name = draft.id or delta.id, draft.name or delta.name
                return draft
        return self._begin_call(delta.index, delta.id, delta.name)

    def _begin_call(self, index: int, identity: str, name: str) -> CallDraft:
        self._answer_documents.close()
        kind = get_document_kind(_find_tool_type(self._tools, extract_call_name(name)))
        document = self._documents.open(kind, title=_sanitize_name(name))
        draft = CallDraft(index=index, id=identity, call=new_id("call"), document=document, name=name, arguments=[])
        self._drafts.append(draft)
        return draft

    def _build_answer(self, reason: FinishReason) -> ModelAnswer:
        ending = self._parser.ending
        if ending.problem:
            self._drop_text_calls()
        calls = tuple((draft.build_call(), draft.document) for draft in self._drafts)
        native, in_text = self._dialect.name == "native", [draft.call for draft in self._drafts if draft.index < 0]
        problems = {draft.call: draft.problem for draft in self._drafts if draft.problem}
        if native and in_text:
            problems |= find_double_edits(self._tools, [call for call, _ in calls], set(in_text))
        reasoning = tuple(
            ReasoningBlock(text="".join(self._thoughts[index]), signature=block.signature, redacted=block.redacted)
            for index, block in sorted(self._reasoning.items())
        )
        message = AssistantMessage(
            content="".join(self._text),
            reasoning=reasoning,
            tool_calls=tuple(call for call, _ in calls),
            model=self._route.id,
            dialect=self._dialect.name if in_text and not native else "",
            in_text=tuple(in_text) if native else (),
            wire=self._wire,
        )
        return ModelAnswer(
            message=message,
            calls=calls,
            reason=reason,
            usage=self.usage,
            problems=problems,
            problem=ending.problem,
            is_over=ending.is_done,
            report=self._report,
            cut_call=self._find_cut_call() if reason in _CUT_REASONS else "",
        )

    def _find_cut_call(self) -> str:
        """Return the id of the last call, "" = none. A call in the text of a model with function calls was complete."""
        last = self._drafts[-1] if self._drafts else None
        return "" if last is None or (last.index < 0 and self._dialect.name == "native") else last.call

    def _drop_text_calls(self) -> None:
        """Drop the calls in the text of an answer whose form is invalid."""
        for draft in self._drafts:
            if draft.index < 0:
                self._documents.finish(
                    build_document(_build_unfinished(draft, "the answer was not in the requested form."))
                )
        self._drafts = [draft for draft in self._drafts if draft.index >= 0]

    def abort(self, reason: str) -> AssistantMessage | None:
        """End an attempt that is not repeated; return its text as an interrupted message, None = it has no text."""
        self._flush_surrogates()
        self._answer_documents.close()
        for draft in self._drafts:
            self._documents.finish(build_document(_build_unfinished(draft, reason)))
        content = "".join(self._text)
        if not content.strip():
            return None
        return AssistantMessage(content=content, model=self._route.id, interrupted=True)


def _sanitize_name(name: str) -> str:
    """Return a name that every provider accepts: at most 64 letters, digits, `_` and `-`."""
    return _NOT_IN_NAME.sub("_", extract_call_name(name))[:64] or "unnamed"


def _find_tool_type(tools: Toolset, name: str) -> ToolType | None:
    try:
        return tools.find(name)
    except ToolInputInvalid:
        return None


def _build_unfinished(draft: CallDraft, reason: str) -> FinishedCall:
    return FinishedCall(
        document=draft.document,
        tool=_sanitize_name(draft.name),
        call=draft.call,
        arguments=decode_arguments("".join(draft.arguments)),
        has_succeeded=False,
        text=f"Not run: {reason}",
        summary="not run",
        duration_ms=draft.document.measure_duration_ms(),
    )
