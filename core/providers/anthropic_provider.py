"""Anthropic's Messages API through its SDK.

Events are parsed as plain JSON (`cast_to=object`) instead of the SDK's models, which saves the import of more than two
thousand of them. A middleware turns HTTP errors into ours before the SDK imports its class for each kind of error.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from msgspec.structs import replace

from core.errors import ContextOverflow, ProviderError
from core.protocol.messages import AssistantMessage, EffortMessage, Message, Usage
from core.providers.anthropic_messages import (
    COMPACTION,
    DISPENSABLE,
    FOUND_TOOLS,
    LOSSES,
    MessageAnswer,
    MessagesWire,
    build_options,
    has_compaction,
)
from core.providers.base import AnswerReport, CompactedHistory, Delta, ModelRequest, RequestReport, UsageReport
from core.providers.catalog.capabilities import Capabilities
from core.providers.connection.endpoint import Endpoint
from core.providers.connection.event_stream import refuse_non_stream
from core.providers.connection.failures import build_cut_error, build_exception_error, build_status_error, to_one_line
from core.providers.sdk_provider import END, SdkProvider, read_next
from core.providers.wire.answer_forms import build_anthropic_format
from core.providers.wire.request_bytes import RequestBytes, RequestEncoder, has_reasoning
from core.providers.wire.wire_values import get_tables, get_text
from core.records import parse_json

OFFICIAL_HOST: Final = "api.anthropic.com"
INTERLEAVED: Final = "interleaved-thinking-2025-05-14"  # Enables thinking between calls within a budget.
FAST: Final = "fast-mode-2026-02-01"  # Some models need it for a speed.
EFFORTS: Final = "mid-conversation-output-config-2026-07-01"
COMPACT: Final = "compact-2026-09-04"
REMOVALS: Final = "thinking-binding-controls-2026-08-01"  # Reports the thinking that was removed.
MAX_SESSIONS: Final = 32  # Sessions whose last answer is remembered.
_GRACE_SECONDS: Final = 0.5  # Seconds to wait for the end of the stream once the message is complete.


class AnthropicProvider(SdkProvider):
    """A server that speaks the Messages API."""

    sdk = "anthropic"
    client_class = "AsyncAnthropic"
    models_path = "/v1/models?limit=200"

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
        self._official = urlsplit(endpoint.base_url).hostname == OFFICIAL_HOST
        self._encoder = RequestEncoder()
        self._refused: dict[str, set[str]] = {}
        self._latest: dict[str, str] = {}  # By session, the least recently used first.
        self._pending_notice = ""

    async def _stream_answer(self, request: ModelRequest) -> AsyncIterator[Delta]:
        has_started = False
        events, request_bytes = await self._send(request)
        answer, patience = MessageAnswer(set(request_bytes.call_ids)), self._endpoint.patience
        try:
            await refuse_non_stream(events, self._build_api(request.model))
            while (
                event := await read_next(events, _GRACE_SECONDS if answer.ending else None, patience=patience)
            ) is not END:
                for delta in answer.feed(event):
                    has_started = True
                    yield delta
        finally:
            await events.close()
        ending = answer.ending or (answer.infer_ending() if events.is_done else None)
        if ending is None:
            raise build_cut_error(self._endpoint.build_api(), has_started=has_started)
        for delta in answer.finish():
            yield delta
        self._note_latest(request, answer.id)
        yield RequestReport(
            dropped_reasoning=request_bytes.dropped_reasoning,
            removed_reasoning=answer.removed_reasoning,
            removal=answer.removal,
            cache_miss=answer.cache_miss,
            notice=self._build_notice(answer.refusal),
        )
        if (wire := answer.build_wire_answer(request_bytes.binding)) is not None:
            yield AnswerReport(wire)
        yield ending

    def can_search(self, _model: str) -> bool:
        return True

    async def compact(self, request: ModelRequest) -> CompactedHistory:
        """Have the API summarise a history. Raises `ProviderError`."""
        try:
            answer = await self._ask_once(request, {"compaction": {"type": "summarize"}})
        except Exception as error:
            raise build_exception_error(error, self._build_api(request.model)) from None
        blocks = [block for block in get_tables(answer, "content") if block.get("type") == COMPACTION]
        text = get_text(blocks[0], "content") if blocks else ""
        if not text:
            raise ProviderError(f"{self._endpoint.label} wrote no summary.", code="bad_answer")
        return CompactedHistory(items=(blocks[0],), text=text, usage=parse_usage(answer), is_first=True)

    async def warm_up(self, request: ModelRequest) -> Usage:
        """Have the API read a request into its cache without an answer. Raises `ProviderError`."""
        try:
            answer = await self._ask_once(request, {"max_tokens": 0})
        except Exception as error:
            raise build_exception_error(error, self._build_api(request.model)) from None
        return parse_usage(answer)

    async def _ask_once(self, request: ModelRequest, fields: dict[str, Any]) -> object:
        """Send the request as it would be sent, with other options, and return the whole answer."""
        capabilities = self._find_capabilities(request.model, "messages")
        refused_names = self._refused.setdefault(request.model, set())
        wire = self._build_wire(request, capabilities, refused_names)
        options = (
            self._build_options(replace(request, answer=None), capabilities, refused_names) | {"stream": False} | fields
        )
        options.pop("diagnostics", None)
        body = self._encoder.encode(wire, request).build_body(options)
        headers = {"anthropic-beta": ",".join(self._list_betas(request, options))}
        client, _ = await self._open_client()
        return await client.post("/v1/messages", cast_to=object, content=body, options={"headers": headers})

    async def _send(self, request: ModelRequest) -> tuple[Any, RequestBytes]:
        """Open the stream of events. An optional field that the server refuses is left out from then on."""
        capabilities = self._find_capabilities(request.model, "messages")
        refused_names = self._refused.setdefault(request.model, set())
        while True:
            wire = self._build_wire(request, capabilities, refused_names)
            request_bytes = self._encoder.encode(wire, request)
            options = self._build_options(request, capabilities, refused_names)
            headers = {"anthropic-beta": ",".join(betas)} if (betas := self._list_betas(request, options)) else {}
            try:
                events = await self._post("/v1/messages", request_bytes.build_body(options), headers)
            except Exception as error:
                failure = build_exception_error(error, self._build_api(request.model))
                names = {
                    *options,
                    *options.get("thinking", {}),
                    *options.get("output_config", {}),
                    "ttl",
                    *wire.optional_names,
                }
                name = _find_dispensable(failure, names - refused_names)
                if not name:
                    raise failure from None
                refused_names.add(name)
                if name in LOSSES:
                    self._pending_notice = f"{self._endpoint.label} does not support {LOSSES[name]}, so it is left out."
            else:
                return events, request_bytes

    def _build_wire(self, request: ModelRequest, capabilities: Capabilities, refused_names: set[str]) -> MessagesWire:
        return MessagesWire(
            request,
            provider=self.name,
            is_marked="cache_control" not in refused_names,
            is_kept=bool(request.cache and capabilities.cache.long) and "ttl" not in refused_names,
            changes_effort=capabilities.changes_effort,
            loads_tools=capabilities.tool_search and FOUND_TOOLS not in refused_names,
        )

    def _list_betas(self, request: ModelRequest, options: dict[str, Any]) -> list[str]:
        """List the betas of the maker's own service that a request needs."""
        if not self._official:
            return []
        wanted = {
            INTERLEAVED: "budget_tokens" in options.get("thinking", {}),
            FAST: "speed" in options,
            EFFORTS: any(isinstance(message, EffortMessage) for message in request.messages),
            REMOVALS: has_thinking(request.messages),
            COMPACT: "compaction" in options or any(map(_is_summary, request.messages)),
        }
        return [beta for beta, is_wanted in wanted.items() if is_wanted]

    def _build_options(
        self, request: ModelRequest, capabilities: Capabilities, refused_names: set[str]
    ) -> dict[str, Any]:
        options = build_options(request, capabilities, without=refused_names)
        form = request.choose_form(leaves_calls=self._official)
        if form is not None and "format" not in refused_names:
            options["output_config"] = {**options.get("output_config", {}), "format": build_anthropic_format(form)}
            if not self._official and request.tools:
                options["tool_choice"] = {"type": "none"}
        if self._official and request.session and not request.private and "diagnostics" not in refused_names:
            options["diagnostics"] = {"previous_message_id": self._latest.get(request.session)}
        return options

    def _build_notice(self, refusal: str) -> str:
        """Return the pending notices for the user, and forget them."""
        notice, self._pending_notice = self._pending_notice, ""
        explanation = f"Reason given by {self._endpoint.label}: {to_one_line(refusal)}." if refusal else ""
        return f"{notice} {explanation}".strip()

    def _note_latest(self, request: ModelRequest, message: str) -> None:
        """Remember the id of the answer, which the next request of the session is compared with."""
        if request.session and message:
            self._latest.pop(request.session, None)
            self._latest[request.session] = message
        if len(self._latest) > MAX_SESSIONS:
            del self._latest[next(iter(self._latest))]

    def _client_options(self) -> dict[str, Any]:
        return {"open_telemetry": False, "middleware": [self._build_error_check()]}

    def _build_error_check(self) -> Callable[[Any, Any], Any]:
        async def check(request: Any, call_next: Any) -> Any:
            response = await call_next(request)
            raw = response.http_response
            if raw.is_success:
                return response
            await raw.aread()
            content = request.options.content
            model = str(parse_json(content).get("model", "")) if isinstance(content, bytes) else ""
            raise build_status_error(raw.status_code, _read_body(raw), raw.headers, self._build_api(model))

        return check


def has_thinking(messages: Sequence[Message]) -> bool:
    """Return True if thinking of earlier answers may be sent back."""
    return any(isinstance(message, AssistantMessage) and has_reasoning(message.wire) for message in messages)


def _is_summary(message: Message) -> bool:
    return isinstance(message, AssistantMessage) and has_compaction(message.wire)


def parse_usage(answer: object) -> Usage:
    """Return the tokens of an answer that was not streamed."""
    reader = MessageAnswer(set())
    reports = [delta.usage for delta in reader.feed(answer) if isinstance(delta, UsageReport)]
    return reports[-1] if reports else Usage()


def _find_dispensable(failure: ProviderError, field_names: set[str]) -> str:
    """Return the optional field that the server named as the reason for its refusal; "" = none."""
    if failure.code == "schema_refused":  # The program's own tools have schemas that are accepted.
        return FOUND_TOOLS if FOUND_TOOLS in field_names else ""
    if failure.code != "request_invalid" or isinstance(failure, ContextOverflow):
        return ""
    text = failure.message.lower()
    mentioned_names = (name for name, words in DISPENSABLE if any(word in text for word in words))
    return next((name for name in mentioned_names if name in field_names), "")


def _read_body(response: Any) -> object:
    try:
        return response.json()
    except ValueError:
        return response.text
