"""One scripted answer as the server-sent events of the three wires that model APIs speak."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Literal

from tests.support.model_server.chat_events import chat_events, chat_usage
from tests.support.model_server.exchange import Event, Exchange
from tests.support.model_server.messages_events import messages_events
from tests.support.model_server.responses_events import responses_events
from tests.support.model_server.step import DEFAULT_USAGE, Call, Place, Say, Step, Think, step_from

__all__ = ["Call", "Dialect", "Place", "Say", "Step", "Think", "chat_usage", "error_body", "events", "step_from"]

Dialect = Literal["openai", "responses", "anthropic"]
_MADE: Final[Mapping[Dialect, Callable[[Step, Exchange], Iterator[Event]]]] = {
    "openai": chat_events,
    "responses": responses_events,
    "anthropic": messages_events,
}


def events(step: Step, dialect: Dialect, model: str, exchange: Exchange | None = None) -> Iterator[tuple[Place, bytes]]:
    """Each event's bytes, and which part of the answer it belongs to."""
    if step.raw:
        yield "text", step.raw.encode()
        return
    usage = DEFAULT_USAGE if step.usage is None else step.usage
    seen = 0
    for number, (place, name, data) in enumerate(_MADE[dialect](step, exchange or Exchange(model=model, usage=usage))):
        seen += place == step.error_at
        if step.error_at and (step.error_at == "before" or seen > 2):
            yield place, _framed(step, number, *error_event(step, dialect, number))
            return
        yield place, _framed(step, number, name, data)


def _framed(step: Step, number: int, name: str, data: Any) -> bytes:
    lines = [f"event: {name}"] if name else []
    if step.comments and number % 2 == 0:
        lines.insert(0, ": keep-alive")
    text = data if isinstance(data, str) else _json(data)
    lines += [f"data: {text}", "", ""]
    return step.newline.join(lines).encode()


def _json(data: Any) -> str:
    """Half a character can only be written as an escape."""
    text = json.dumps(data, ensure_ascii=False)
    return json.dumps(data) if any("\ud800" <= character <= "\udfff" for character in text) else text


def error_event(step: Step, dialect: Dialect, number: int) -> tuple[str, Any]:
    """An error in the middle of a stream that began well."""
    code = step.error_type or "server_error"
    if dialect == "responses":
        error = {"type": "error", "code": code, "message": step.error, "param": None}
        return "error", {**error, "sequence_number": number}
    if dialect == "anthropic":
        kind = step.error_type or "overloaded_error"
        return "error", {"type": "error", "error": {"type": kind, "message": step.error}}
    return "", {"error": {"message": step.error, "type": code, "code": code}}


def error_body(step: Step, dialect: Dialect, key: str) -> str:
    """The body of an answer whose status is not 200."""
    if step.body:
        return step.body.replace("{key}", key)
    message = f"{step.error} {key}" if step.echo_key else step.error
    error = {"message": message, "type": step.error_type or "error"}
    return json.dumps(
        {"type": "error", "error": error}
        if dialect == "anthropic"
        else {"error": {**error, "code": step.error_type or None}}
    )
