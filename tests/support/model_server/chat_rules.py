"""What the chat completions API refuses, in OpenAI's words, and what other hosts of it need back."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tests.support.model_server.catalog import Gpt, gpt_of
from tests.support.model_server.prompt import Item
from tests.support.model_server.refusal import Refusal
from tests.support.model_server.responses_rules import (
    refused_form,
    refused_tools,
    typed_refusal,
    unsupported,
    wrong_effort,
)
from tests.support.model_server.typed_bodies import faults_of

NEED_THOUGHTS: Final = re.compile(r"(.*/)?(deepseek|kimi)")
NEED_SIGNATURES: Final = re.compile(r"(.*/)?gemini")


@dataclass
class GivenMessages:
    """What hosts of other makers gave and want back: reasoning and unknown fields of calls, by the ids of the calls."""

    reasoning: dict[str, str] = field(default_factory=dict)
    extra: dict[str, Item] = field(default_factory=dict)


def refused_chat(body: Mapping[str, Any], history: GivenMessages) -> Iterator[Refusal]:
    from openai.types.chat.completion_create_params import (
        CompletionCreateParamsNonStreaming,
        CompletionCreateParamsStreaming,
    )

    params = CompletionCreateParamsStreaming if body.get("stream") else CompletionCreateParamsNonStreaming
    gpt = gpt_of(body.get("model", ""))
    faults = faults_of(params, body)
    if gpt is None:  # other hosts know more fields, and only OpenAI's own are typed
        faults = [fault for fault in faults if fault[1] != "extra_forbidden" and not _around_extra(fault, faults)]
    for fault in faults:
        yield typed_refusal(fault)
        return
    yield from _options(body, gpt)
    yield from refused_form((body.get("response_format") or {}).get("json_schema"), "response_format")
    tools = [tool for tool in body.get("tools", ()) if tool["type"] == "function"]
    yield from refused_tools({f"tools[{place}].function": tool["function"] for place, tool in enumerate(tools)})
    yield from _calls(body["messages"])
    yield from _owed(body, history)


def _around_extra(fault: Any, faults: Sequence[Any]) -> bool:
    """Whether a union failed only because a field within it is unknown."""
    place = fault[0]
    return any(other[1] == "extra_forbidden" and other[0][: len(place)] == place and other != fault for other in faults)


def _options(body: Mapping[str, Any], gpt: Gpt | None) -> Iterator[Refusal]:
    if gpt is None:
        return
    model = body["model"]
    effort = body.get("reasoning_effort")
    if gpt.chat_tools and body.get("tools") and effort != "none":
        yield Refusal(message=gpt.chat_tools.format(model=model), param="reasoning_effort")
    yield from wrong_effort(effort, gpt, model, "reasoning_effort")
    if gpt.sampling:
        return
    if "max_tokens" in body:
        detail = (
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
        )
        yield Refusal(message=detail, param="max_tokens", code="unsupported_parameter")
    if (heat := body.get("temperature")) not in (None, 1):
        detail = (
            f"Unsupported value: 'temperature' does not support {heat} with this model. Only the default (1) value is"
        )
        yield Refusal(message=f"{detail} supported.", param="temperature", code="unsupported_value")
    yield from (unsupported(name) for name in ("stop", "top_p") if name in body)


def _calls(messages: Sequence[Item]) -> Iterator[Refusal]:
    waiting: list[str] = []
    for place, message in enumerate([*messages, {"role": ""}]):
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                detail = "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
                yield Refusal(message=f"Invalid parameter: {detail}", param=f"messages.[{place}].role")
            waiting = [call_id for call_id in waiting if call_id != message["tool_call_id"]]
            continue
        if waiting:
            yield Refusal(
                message="An assistant message with 'tool_calls' must be followed by tool messages responding to each "
                f"'tool_call_id'. The following tool_call_ids did not have response messages: {', '.join(waiting)}",
                param="messages",
            )
        waiting = [call["id"] for call in message.get("tool_calls") or ()]
        if message["role"] == "assistant" and not waiting and message.get("content") is None:
            detail = f"Invalid value for 'content': expected a string, got null. (messages[{place}])"
            yield Refusal(message=detail, param=f"messages.[{place}].content")


def _owed(body: Mapping[str, Any], history: GivenMessages) -> Iterator[Refusal]:
    """What a host gave with a call and misses."""
    for message in body["messages"]:
        for call in message.get("tool_calls") or ():
            thought = history.reasoning.get(call["id"])
            if thought and NEED_THOUGHTS.match(body["model"]) and message.get("reasoning_content") != thought:
                detail = "The `reasoning_content` in the thinking mode must be passed back to the API."
                yield Refusal(message=detail)
            extra = history.extra.get(call["id"])
            if extra and any(call.get(name) != value for name, value in extra.items()):
                detail = (
                    "Function call is missing a thought_signature in functionCall parts. This is required for tools to"
                )
                yield Refusal(message=f"{detail} work correctly.", code="INVALID_ARGUMENT")
