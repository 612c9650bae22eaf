"""The requirements of one server, inferred once from its refusals and remembered.

Compatible servers refuse unknown options, fields of returned messages, and an order of messages that their template
can't render; some models are available over only one of the two protocols. The request is sent again without an
optional part that was refused; if the user could miss it, `notice` has a message.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from msgspec.structs import replace

from core.errors import ContextOverflow, ProviderError
from core.protocol.messages import AssistantMessage, WireProtocol
from core.providers.base import ModelRequest
from core.providers.connection.refusals import ALTERNATES, NEEDS_RESPONSES, NO_SYSTEM, drop_echoes, matches_words
from core.providers.openai.chat import find_unknown_fields
from core.providers.openai.server_quirks import BLANKS, ServerQuirks

NAMES: Final[dict[WireProtocol, str]] = {"chat": "chat completions", "responses": "the Responses API"}
_OTHER_WIRE: Final[dict[WireProtocol, WireProtocol]] = {"chat": "responses", "responses": "chat"}
_LIMITS: Final = {"max_completion_tokens": "max_tokens", "max_tokens": "max_completion_tokens"}
_TIERS: Final = frozenset({"service_tier", "background"})
_EFFORTS: Final = frozenset({"reasoning_effort", "reasoning.effort", "reasoning"})


# By option (`table.field`): the words by which a server names it in a refusal.
_OPTIONS: Final = {
    **{name: name for name in ("stream_options", "prompt_cache_key", "reasoning_effort", "temperature", *_LIMITS)},
    "return_progress": "return_progress",
    "response_format": r"response_format|json.schema|structured output|\bgrammar\b",
    "text": r"text\.format|'param': 'text|response_format|json.schema|structured output",
    "tool_choice": r"tool_choice",
    "service_tier": r"service_tier|service tier",
    "background": r"background|completion_window|completion window",
    "prompt_cache_options": r"prompt_cache_options|cache ttl",
    "include": r"'param': 'include|encrypted content is not supported|unknown parameter: 'include",
    "reasoning.summary": r"reasoning\.summary|reasoning summar",
    "reasoning.effort": r"reasoning\.effort",
    "reasoning": r"'param': 'reasoning'|(unsupported|unknown|unrecognized|extra)[^.]{0,40}\breasoning\b(?![._])",
}
_UNKNOWN_FIELD: Final = (
    r"extra (inputs|fields)|additional propert|(unknown|unsupported) (field|parameter|argument)|unrecognized"
)
_NO_SEARCH: Final = r"tool_search|invalid schema for function"  # The schemas of the program's own tools are accepted.
_NO_GRAMMAR: Final = r"grammar|\blark\b|tools\[\d+\]\.format"
_NEEDS_CHAT: Final = r"(use|only( supported)? in) (the )?/?v1/chat/completions"
_REQUIRED_FIELDS: Final = {
    name: rf"{name}.{{0,60}}(missing|required|must be (passed|provided|included)|passed back)|missing.{{0,20}}{name}"
    for name in ("reasoning_content", "thought_signature")
}
_SHORT_IDS: Final = r"tool call id.{0,120}length of 9"
_NULL_CONTENT: Final = (
    r"(?<!_)content\b.{0,160}(null\b|none\b|NoneType|valid string|be a string|required|missing|not of type)"
    r"|(null\b|none\b|NoneType|missing|required|string).{0,160}\bcontent\b|NoneType|\bon null\b"
)
_FORM_REFUSED: Final = frozenset({"request_invalid", "server_failed", "access_denied", "call_malformed"})
_NO_SUCH_PATH: Final = frozenset({404, 405, 501})
_WIRE_REFUSED: Final = frozenset({"request_invalid", "model_unknown", "address_unknown", "tools_unsupported"})
_OPTION_REFUSED: Final = frozenset({"request_invalid", "access_denied", "reasoning_refused", "schema_refused"})
_NO_OBJECTS: Final = r"non-empty for object type|object type must have properties"


class Negotiation:
    """The negotiation with one server. `label`: its name. `official`: it is OpenAI's own, which knows its own
    options."""

    def __init__(self, label: str, *, official: bool) -> None:
        self._label, self._official = label, official
        self._wires: dict[str, WireProtocol] = {}
        self._refused: set[str] = set()
        self.quirks = ServerQuirks()
        self.notice = ""
        self.takes_grammar = self.takes_search = True

    def choose_wire(self, model: str) -> WireProtocol | None:
        """Return the protocol that the server requires for a model; None: unknown."""
        return self._wires.get(model)

    def filter_options(self, tail: dict[str, Any]) -> dict[str, Any]:
        """Return the options of a request without those that were refused."""
        options = {name: value for name, value in tail.items() if name not in self._refused}
        if "background" not in options and options.pop("background_options", None):
            options["stream"] = True
        for name in self._refused & tail.keys() & _LIMITS.keys():
            options[_LIMITS[name]] = tail[name]
        if isinstance(table := options.get("reasoning"), dict):
            options["reasoning"] = {
                key: value for key, value in table.items() if f"reasoning.{key}" not in self._refused
            }
        return options

    def adapt(
        self,
        failure: ProviderError,
        error: Exception,
        wire: WireProtocol,
        request: ModelRequest,
        options: dict[str, Any],
    ) -> bool:
        """Adapt to a refusal. Return True if the request should be sent again in another form. `options`: its
        options."""
        text = str(getattr(error, "body", ""))
        if self._adapt_wire(failure, getattr(error, "status_code", 0), text, wire, request.model):
            return True
        if wire == "chat" and self._adapt_form(failure, error, request):
            return True
        if failure.code not in _OPTION_REFUSED or isinstance(failure, ContextOverflow):
            return False
        if wire == "chat" and self._adapt_quirk(text, request):
            return True
        if wire == "responses" and self._adapt_tools(text):
            return True
        if names := self._find_dispensable(text, options):
            self._refused |= names
            if names & _TIERS:
                self.notice = f"{self._label} does not offer the service tier {request.tier} for {request.model}."
            if names & _EFFORTS and request.effort:
                self.notice = f"{self._label} does not support the effort level {request.effort} for {request.model}."
        return bool(names)

    def _adapt_wire(self, failure: ProviderError, status: int, text: str, wire: WireProtocol, model: str) -> bool:
        if model in self._wires or failure.code not in _WIRE_REFUSED:
            return False
        if wire == "chat":
            needs_other = matches_words(NEEDS_RESPONSES, text)
        else:
            is_missing = status in _NO_SUCH_PATH and failure.code != "model_unknown"
            needs_other = is_missing or matches_words(_NEEDS_CHAT, text)
        if needs_other:
            other = self._wires[model] = _OTHER_WIRE[wire]
            self.notice = f"{self._label} supports {model} only over {NAMES[other]}; that is used from now on."
        return needs_other

    def _adapt_tools(self, text: str) -> bool:
        """Adapt to a server that knows no grammars, or no search of tools."""
        if self.takes_search and matches_words(_NO_SEARCH, text):
            self.takes_search = False
        elif self.takes_grammar and matches_words(_NO_GRAMMAR, text):
            self.takes_grammar = False
        else:
            return False
        return True

    def _adapt_form(self, failure: ProviderError, error: Exception, request: ModelRequest) -> bool:
        """Adapt to the server's chat template. A template that accepts no form gets one without calls."""
        if failure.code not in _FORM_REFUSED or isinstance(failure, ContextOverflow):
            return False
        text, quirks = " ".join(_list_texts(drop_echoes(getattr(error, "body", None)))), self.quirks
        text = text or failure.message
        is_bare = any(_has_calls_alone(message) for message in request.messages)
        blank_index = BLANKS.index(quirks.blank) + 1 if quirks.blank is not None else 0
        if matches_words(NO_SYSTEM, text) and request.system:
            self.quirks = replace(quirks, takes_system=False)
        elif matches_words(ALTERNATES, text):
            self.quirks = replace(quirks, alternates=True, takes_system=not (quirks.alternates and request.system))
            if self.quirks == quirks and request.tools:
                failure.code = "tools_unsupported"
        elif is_bare and blank_index < len(BLANKS) and matches_words(_NULL_CONTENT, text):
            self.quirks = replace(quirks, blank=BLANKS[blank_index])
        return self.quirks != quirks

    def _find_dispensable(self, text: str, options: dict[str, Any]) -> set[str]:
        names = {name for name, pattern in _OPTIONS.items() if _is_sent(options, name) and matches_words(pattern, text)}
        if not names and not self._official and "stream_options" in options and matches_words(_UNKNOWN_FIELD, text):
            names = {"stream_options"}
        return names - self._refused

    def _adapt_quirk(self, text: str, request: ModelRequest) -> bool:
        quirks = self.quirks
        if required_fields := {name for name, pattern in _REQUIRED_FIELDS.items() if matches_words(pattern, text)}:
            self.quirks = replace(quirks, required_fields=quirks.required_fields | required_fields)
        elif matches_words(_NO_OBJECTS, text):
            self.quirks = replace(quirks, takes_objects=False)
        elif matches_words(_SHORT_IDS, text):
            self.quirks = replace(quirks, short_ids=True)
        else:
            unknown = find_unknown_fields(request.messages)
            refused_fields = {name for name in unknown if re.search(rf"\b{re.escape(name)}\b", text)}
            self.quirks = replace(quirks, refused=quirks.refused | refused_fields)
        return self.quirks != quirks


def _list_texts(body: object) -> Iterator[str]:
    """Yield the texts in a body, and the locations of the fields that it names."""
    if isinstance(body, str):
        yield body
    elif isinstance(body, dict | list):
        for value in body.values() if isinstance(body, dict) else body:
            yield from _list_texts(value)


def _has_calls_alone(message: object) -> bool:
    return isinstance(message, AssistantMessage) and bool(message.tool_calls) and not message.content


def _is_sent(options: dict[str, Any], name: str) -> bool:
    """Return True if an option was sent; `table.field` names one within a table."""
    option, _, field = name.partition(".")
    return option in options and (not field or (isinstance(options[option], dict) and field in options[option]))
