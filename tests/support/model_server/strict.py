"""The rules of the real services, held over a session: what is refused, what was signed, what the cache would hit."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tests.support.model_server.catalog import claude_of
from tests.support.model_server.chat_rules import GivenMessages, refused_chat
from tests.support.model_server.exchange import Exchange
from tests.support.model_server.messages_rules import refused_messages
from tests.support.model_server.prompt import Item
from tests.support.model_server.prompt_cache import PromptCache
from tests.support.model_server.refusal import Refusal
from tests.support.model_server.responses_events import responses_events
from tests.support.model_server.responses_rules import GivenItems, refused_response
from tests.support.model_server.step import Call, Step, Think
from tests.support.model_server.thinking_seals import seal

TOLD: Final = ("service_tier", "prompt_cache_options", "background_options", "speed", "cache_control")
_NO_JSON: Final = {
    "anthropic": "The request body is not valid JSON: no low surrogate in string",
    "openai": "We could not parse the JSON body of your request. The OpenAI API expects a JSON payload.",
}


@dataclass
class StrictRules:
    """`refusals`: all of them, for a test to say that there was none. `remarks`: what a service takes silently though
    it costs something: reasoning that it drops because another model thought it, items that are not as it gave them.
    `counts`: the tokens of each answered prompt.
    """

    refusals: list[Refusal] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    counts: list[dict[str, int]] = field(default_factory=list)
    cache: PromptCache = field(default_factory=PromptCache)
    _items: GivenItems = field(default_factory=GivenItems)
    _messages: GivenMessages = field(default_factory=GivenMessages)

    def judge(self, dialect: str, raw: bytes, betas: Sequence[str] = ()) -> Refusal | None:
        """Why a request is refused, None: it is not. `betas`: those of its header."""
        refusal = next(self._violations(dialect, raw, betas), None)
        if refusal is not None:
            self.refusals.append(refusal)
        return refusal

    def _violations(self, dialect: str, raw: bytes, betas: Sequence[str]) -> Iterator[Refusal]:
        try:
            body = json.loads(raw)
            json.dumps(body, ensure_ascii=False).encode()
        except ValueError:  # half a character, too
            yield Refusal(message=_NO_JSON["anthropic" if dialect == "anthropic" else "openai"])
            return
        match dialect:
            case "anthropic":
                unread: list[str] = []
                yield from refused_messages(body, unread, betas)
                self.remarks += [f"messages.{path}: model_mismatch" for path in unread]
            case "responses":
                yield from refused_response(body, self._items, self.remarks)
            case _:
                yield from refused_chat(body, self._messages)

    def exchange(self, dialect: str, step: Step, body: Mapping[str, Any], number: int) -> Exchange:
        """What the answer to a request is made with. It is remembered as given."""
        prefix = {"anthropic": "msg", "responses": "resp"}.get(dialect, "chatcmpl")
        counted, asked = self.cache.count(body, explicit=dialect == "anthropic", answer=f"{prefix}_{number}")
        self.counts.append(counted)
        thought_length = sum(
            len(getattr(part, "text", "")) if isinstance(part, Think) else 0 for part in step.in_order()
        )
        usage: Mapping[str, int] = {**counted, "completion": 20, "reasoning": thought_length // 4}
        exchange = Exchange(
            model=body["model"],
            number=number,
            usage=usage if step.usage is None else step.usage,
            seal=self._seal(dialect, body, number),
            unique=True,
            shows_thinking=dialect != "anthropic" or _shows(body),
            diagnostics=self._diagnostics(dialect, body, asked),
            settings={name: body[name] for name in TOLD if name in body},
        )
        self._remember(dialect, step, exchange)
        return exchange

    def _seal(self, dialect: str, body: Mapping[str, Any], number: int) -> Callable[[Sequence[Item], str], str]:
        if dialect == "anthropic":
            return lambda before, text: seal(body, before, text)
        return lambda before, text: f"gAAAAAB-{number}-{len(before)}-{zlib.crc32(repr(text).encode()):x}=="

    def _diagnostics(self, dialect: str, body: Mapping[str, Any], asked: Any) -> Mapping[str, Any] | None:
        earlier = (body.get("diagnostics") or {}).get("previous_message_id")
        if dialect != "anthropic" or "diagnostics" not in body:
            return None
        return {"cache_miss_reason": self.cache.miss(asked, earlier) if earlier else None}

    def _remember(self, dialect: str, step: Step, exchange: Exchange) -> None:
        if step.chunks or step.raw:
            return
        if dialect == "responses":
            events = [data for _, kind, data in responses_events(step, exchange) if kind == "response.output_item.done"]
            self._items.add([event["item"] for event in events], exchange.model)
        elif dialect == "openai":
            thought = "".join(part.text for part in step.in_order() if isinstance(part, Think))
            for index, call in enumerate(part for part in step.in_order() if isinstance(part, Call)):
                self._messages.reasoning[exchange.call_id(call, "call", index)] = thought
                self._messages.extra[exchange.call_id(call, "call", index)] = dict(call.extra)


def _shows(body: Mapping[str, Any]) -> bool:
    claude = claude_of(body["model"])
    usual = claude.default_display if claude else "summarized"
    return ((body.get("thinking") or {}).get("display") or usual) == "summarized"
