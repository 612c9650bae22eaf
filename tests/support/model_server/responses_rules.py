"""What the responses API refuses, in its words, and what it remembers of the items that it gave."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tests.support.model_server.catalog import Gpt, gpt_of
from tests.support.model_server.prompt import Item
from tests.support.model_server.refusal import Refusal
from tests.support.model_server.typed_bodies import Fault, faults_of, open_objects

_NAME: Final = r"[a-zA-Z0-9_-]+"
_LONGEST_DESCRIPTION: Final = 1024
_LONGEST_CACHE_KEY: Final = 64
_OUTPUTS: Final = {
    "function_call_output": "function_call",
    "custom_tool_call_output": "custom_tool_call",
    "tool_search_output": "tool_search_call",
}
_WORDS: Final = {
    "function_call": "function call",
    "custom_tool_call": "custom tool call",
    "tool_search_call": "tool search call",
}


@dataclass
class GivenItems:
    """The items of all answers, by id. `after` and `before`: the item that follows a reasoning item in its answer, and
    the reasoning item that an item follows.
    """

    whole: dict[str, Item] = field(default_factory=dict)
    models: dict[str, str] = field(default_factory=dict)
    after: dict[str, str] = field(default_factory=dict)
    before: dict[str, str] = field(default_factory=dict)

    def add(self, items: Sequence[Item], model: str) -> None:
        for place, item in enumerate(items):
            self.whole[item["id"]] = item
            self.models[item["id"]] = model
            if item["type"] == "reasoning" and place + 1 < len(items):
                self.after[item["id"]] = items[place + 1]["id"]
                self.before[items[place + 1]["id"]] = item["id"]


def refused_response(body: Mapping[str, Any], history: GivenItems, remarks: list[str]) -> Iterator[Refusal]:
    """`remarks`: gets what the API takes without an error though it costs quality."""
    from openai.types.responses.response_create_params import (
        ResponseCreateParamsNonStreaming,
        ResponseCreateParamsStreaming,
    )

    params = ResponseCreateParamsStreaming if body.get("stream") else ResponseCreateParamsNonStreaming
    for fault in faults_of(params, body):
        yield typed_refusal(fault)
        return
    yield from _options(body, gpt_of(body["model"]))
    yield from _economy(body, gpt_of(body["model"]))
    yield from refused_form((body.get("text") or {}).get("format"), "text.format")
    yield from _tools(body.get("tools", ()))
    items = body["input"] if isinstance(body["input"], list) else []
    yield from _calls(items)
    yield from _given(items, body["model"], history, remarks)
    yield from _images(items)


def refused_compaction(body: Mapping[str, Any]) -> Refusal | None:
    """Why a request for a summary is refused, None: it is not."""
    from openai.types.responses.response_compact_params import ResponseCompactParams

    return next((typed_refusal(fault) for fault in faults_of(ResponseCompactParams, body)), None)


def typed_refusal(fault: Fault) -> Refusal:
    place, kind, message = fault
    path = str(place[0]) + "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in place[1:])
    if kind == "extra_forbidden":
        return Refusal(message=f"Unknown parameter: '{path}'.", param=path, code="unknown_parameter")
    if kind == "missing":
        detail = f"Missing required parameter: '{path}'."
        return Refusal(message=detail, param=path, code="missing_required_parameter")
    return Refusal(message=f"Invalid value for '{path}': {message}.", param=path, code="invalid_value")


def unsupported(name: str, model: str = "") -> Refusal:
    detail = f"Unsupported parameter: '{name}' is not supported with this model."
    return Refusal(message=detail, param=name, code="unsupported_parameter")


def wrong_effort(effort: str | None, gpt: Gpt, model: str, param: str) -> Iterator[Refusal]:
    if effort and not gpt.efforts:
        yield unsupported(param)
    elif effort and effort not in gpt.efforts:
        known = ", ".join(f"'{level}'" for level in gpt.efforts)
        detail = (
            f"Unsupported value: '{effort}' is not supported with the '{model}' model. Supported values are: {known}."
        )
        yield Refusal(message=detail, param=param, code="unsupported_value")


def _options(body: Mapping[str, Any], gpt: Gpt | None) -> Iterator[Refusal]:
    if len(body.get("prompt_cache_key") or "") > _LONGEST_CACHE_KEY:
        yield _too_long("prompt_cache_key", _LONGEST_CACHE_KEY, len(body["prompt_cache_key"]))
    if (limit := body.get("max_output_tokens")) is not None and limit < 16:
        detail = f"integer below minimum value. Expected a value >= 16, but got {limit} instead."
        yield Refusal(
            message=f"Invalid 'max_output_tokens': {detail}", param="max_output_tokens", code="integer_below_min_value"
        )
    if gpt is None:
        return
    if not gpt.sampling:
        yield from (unsupported(name) for name in ("temperature", "top_p") if name in body)
    reasoning = body.get("reasoning") or {}
    if not gpt.efforts and reasoning:
        yield unsupported("reasoning")
    yield from wrong_effort(reasoning.get("effort"), gpt, body["model"], "reasoning.effort")
    if not gpt.freeform and any(tool["type"] == "custom" for tool in body.get("tools", ())):
        yield Refusal(message="Custom tools are not supported with this model.", param="tools")


def _economy(body: Mapping[str, Any], gpt: Gpt | None) -> Iterator[Refusal]:
    """As the guides to background mode, prompt caching, flex processing and changes of the effort describe them."""
    window = (body.get("background_options") or {}).get("completion_window", "soonest")
    if window != "soonest" and (not body.get("background") or body.get("stream") or body.get("service_tier")):
        detail = "requires background=true, Standard processing, and stream=false or omitted."
        yield Refusal(message=f"completion_window '{window}' {detail}", param="background_options.completion_window")
    if gpt is None:
        return
    if body.get("prompt_cache_options") and not re.match(r"gpt-(6|5\.6)", body["model"]):
        yield unsupported("prompt_cache_options")
    if body.get("service_tier") == "flex" and body["model"].startswith("gpt-6.2"):
        yield unsupported("service_tier")
    changes = [item for item in body["input"] if isinstance(item, dict) and item.get("type") == "configuration_update"]
    if changes and not body["model"].startswith("gpt-6"):
        yield Refusal(message="The 'configuration_update' item type is not supported with this model.", param="input")
    for change in changes:
        yield from wrong_effort(change["reasoning"]["effort"], gpt, body["model"], "input.reasoning.effort")


def _too_long(path: str, limit: int, length: int) -> Refusal:
    detail = f"Expected a string with maximum length {limit}, but got a string with length {length} instead."
    return Refusal(message=f"Invalid '{path}': string too long. {detail}", param=path, code="string_above_max_length")


def refused_form(form: Mapping[str, Any] | None, path: str) -> Iterator[Refusal]:
    """As the guide to structured outputs says: the root is an object, and a strict schema closes all of them."""
    if form is None or form.get("type", "json_schema") != "json_schema":
        return
    if form["schema"].get("type") != "object":
        detail = f"schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{form['schema'].get('type')}\"'."
        yield Refusal(message=f"Invalid schema for response_format '{form['name']}': {detail}", param=path)
    elif form.get("strict") and open_objects(form["schema"]):
        detail = "'additionalProperties' is required to be supplied and to be false."
        yield Refusal(
            message=f"Invalid schema for response_format '{form['name']}': In context=(), {detail}", param=path
        )


def _tools(tools: Sequence[Item]) -> Iterator[Refusal]:
    named_tools = [tool for tool in tools if tool["type"] in ("function", "custom")]
    yield from refused_tools({f"tools[{place}]": tool for place, tool in enumerate(named_tools)})


def refused_tools(tools: Mapping[str, Item]) -> Iterator[Refusal]:
    """`tools`: the name and description of each by its path in the body."""
    for path, tool in tools.items():
        if not re.fullmatch(_NAME, tool["name"]):
            detail = "string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."
            yield Refusal(message=f"Invalid '{path}.name': {detail}", param=f"{path}.name", code="invalid_value")
        if len(tool.get("description") or "") > _LONGEST_DESCRIPTION:
            yield _too_long(f"{path}.description", _LONGEST_DESCRIPTION, len(tool["description"]))
    names = [tool["name"] for tool in tools.values()]
    for name in sorted({candidate for candidate in names if names.count(candidate) > 1}):
        yield Refusal(message=f"Duplicate tool name: {name}.", param="tools")


def _calls(items: Sequence[Item]) -> Iterator[Refusal]:
    """Each output has its call before it, and each call its output."""
    waiting: dict[str, str] = {}
    called: set[tuple[str, str]] = set()
    for item in items:
        kind, call = item.get("type", "message"), item.get("call_id")
        if kind in _WORDS:
            waiting[item["call_id"]] = kind
            called.add((kind, item["call_id"]))
        elif kind in _OUTPUTS:
            word = _WORDS[_OUTPUTS[kind]]
            if (_OUTPUTS[kind], call) not in called:
                detail = f"No tool call found for {word} output with call_id {call}."
                yield Refusal(message=detail, param="input")
            waiting.pop(str(call), None)
    for call, kind in waiting.items():
        yield Refusal(message=f"No tool output found for {_WORDS[kind]} {call}.", param="input")


def _given(items: Sequence[Item], model: str, history: GivenItems, remarks: list[str]) -> Iterator[Refusal]:
    ids = [str(entry.get("id")) for entry in items if entry.get("id")]
    for twice in sorted({identifier for identifier in ids if ids.count(identifier) > 1}):
        detail = f"Duplicate item found with id {twice}. Remove duplicate items from your input and try again."
        yield Refusal(message=detail, param="input")
    for place, item in enumerate(items):
        if not item.get("id"):
            continue
        kind, name = item.get("type", "message"), item["id"]
        following = items[place + 1].get("id") if place + 1 < len(items) else None
        if kind == "reasoning":
            yield from _reasoning(item, model, history, following, remarks)
        elif (thought := history.before.get(name)) and thought not in ids[: ids.index(name)]:
            detail = f"Item '{name}' of type '{kind}' was provided without its required 'reasoning' item: '{thought}'."
            yield Refusal(message=detail, param="input")
        if name in history.whole and (changed := _changes(item, history.whole[name])):
            remarks.append(f"{name}: {', '.join(changed)} changed")


def _reasoning(
    item: Item, model: str, history: GivenItems, following: str | None, remarks: list[str]
) -> Iterator[Refusal]:
    name, secret = item["id"], item.get("encrypted_content")
    if not secret:
        detail = (
            "Items are not persisted when `store` is set to false. Try again with `store` set to true, or remove this"
        )
        yield Refusal(
            message=f"Item with id '{name}' not found. {detail} item from your input.", status=404, param="input"
        )
        return
    if name not in history.whole or history.whole[name]["encrypted_content"] != secret:
        detail = "could not be verified. Reason: Encrypted content could not be decrypted or parsed."
        yield Refusal(message=f"The encrypted content {secret[:10]}... {detail}", code="invalid_encrypted_content")
        return
    if history.models[name] != model:
        remarks.append(f"{name}: model_mismatch")
    if name in history.after and following != history.after[name]:
        detail = f"Item '{name}' of type 'reasoning' was provided without its required following item."
        yield Refusal(message=detail, param="input")


def _changes(item: Item, whole: Item) -> list[str]:
    """The fields that are not as they were given."""
    names = (item.keys() | whole.keys()) - {"status"}
    return sorted(name for name in names if item.get(name) != whole.get(name))


def _images(items: Sequence[Item]) -> Iterator[Refusal]:
    for place, item in enumerate(items):
        content = item.get("content", item.get("output"))
        for number, part in enumerate(content if isinstance(content, list) else ()):
            url = part.get("image_url")
            if part.get("type") == "input_image" and not re.match(
                r"https?://|data:image/\w+;base64,[\w+/]+=*$", url or ""
            ):
                path = f"input[{place}].content[{number}].image_url"
                detail = "Expected a base64-encoded data URL with an image MIME type"
                yield Refusal(message=f"Invalid '{path}'. {detail}, but got {str(url)[:24]!r}.", param=path)
