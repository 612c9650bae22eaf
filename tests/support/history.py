"""Whether a history is one that both providers accept: every call answered once, in order, and nothing empty."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from core.protocol.messages import AssistantMessage, Message, ToolMessage, UserMessage


def faults(messages: Sequence[Message]) -> list[str]:
    """What is wrong with the history, one line each; nothing = valid."""
    problems: list[str] = []
    seen: set[str] = set()
    waiting: list[str] = []
    if messages and not isinstance(messages[0], UserMessage):
        problems.append("does not begin with a user message")
    for number, message in enumerate(messages):
        if waiting and not isinstance(message, ToolMessage):
            problems.append(f"{number}: calls without a result: {waiting}")
            waiting = []
        match message:
            case UserMessage(content=content):
                problems += [f"{number}: empty user message"] * (not content.strip())
            case AssistantMessage():
                if not message.content.strip() and not message.tool_calls:
                    problems.append(f"{number}: empty assistant message")
                waiting = [call.id for call in message.tool_calls]
                problems += [
                    f"{number}: call id used again: {identifier}" for identifier in waiting if identifier in seen
                ]
                problems += [f"{number}: duplicate ids"] * (len(set(waiting)) != len(waiting))
                problems += [f"{number}: a call without a name"] * (not all(call.name for call in message.tool_calls))
                seen.update(waiting)
            case ToolMessage(call_id=call_id, content=content):
                if not waiting or waiting[0] != call_id:
                    problems.append(f"{number}: result for {call_id}, expected {waiting[:1]}")
                waiting = [identifier for identifier in waiting if identifier != call_id]
                problems += [f"{number}: empty result"] * (not content.strip())
    if waiting:
        problems.append(f"the end: calls without a result: {waiting}")
    return problems


def is_valid(messages: Sequence[Message]) -> bool:
    json.dumps([str(message) for message in messages])
    return faults(messages) == []


def openai_faults(messages: Sequence[dict[str, Any]]) -> list[str]:
    """What chat completions would refuse in the messages of a request: unanswered or unasked calls, empty content."""
    problems: list[str] = []
    waiting: list[str] = []
    for number, message in enumerate(messages):
        role = message["role"]
        if role != "tool" and waiting:
            problems.append(f"{number}: calls without a result: {waiting}")
            waiting = []
        if role == "tool":
            problems += [f"{number}: a result that nobody asked for"] * (message["tool_call_id"] not in waiting)
            waiting = [call_id for call_id in waiting if call_id != message["tool_call_id"]]
        if role == "assistant":
            asked = message.get("tool_calls", [])
            waiting = [call["id"] for call in asked]
            problems += [f"{number}: arguments are no JSON object"] * (not all(map(_is_object, asked)))
        content = message.get("content")
        if not (content or (role == "assistant" and message.get("tool_calls"))):
            problems.append(f"{number}: empty {role} message")
    return problems + [f"the end: calls without a result: {waiting}"] * bool(waiting)


def _is_object(call: dict[str, Any]) -> bool:
    try:
        return isinstance(json.loads(call["function"]["arguments"]), dict)
    except ValueError:
        return False


def anthropic_faults(messages: Sequence[dict[str, Any]]) -> list[str]:
    """What the messages API would refuse: an answer at the start, results that are not first, empty text. It reads
    messages of one role that follow each other as one."""
    problems: list[str] = []
    waiting: list[str] = []
    for number, message in enumerate(_as_turns(messages)):
        expected = "assistant" if number % 2 else "user"
        problems += [f"{number}: {message['role']}, expected {expected}"] * (message["role"] != expected)
        blocks = message["content"]
        kinds = [block["type"] for block in blocks]
        problems += [f"{number}: no content"] * (not blocks)
        problems += [f"{number}: empty text"] * any(
            block["type"] == "text" and not block["text"].strip() for block in blocks
        )
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        problems += [f"{number}: results {results} for calls {waiting}"] * (sorted(results) != sorted(waiting))
        problems += [f"{number}: results are not first"] * (kinds[: len(results)] != ["tool_result"] * len(results))
        problems += [f"{number}: an input that is no object"] * any(
            not isinstance(block["input"], dict) for block in blocks if block["type"] == "tool_use"
        )
        waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
    return problems + [f"the end: calls without a result: {waiting}"] * bool(waiting)


def _as_turns(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    turns: list[dict[str, Any]] = []
    for message in messages:
        if turns and turns[-1]["role"] == message["role"]:
            turns[-1] = {**turns[-1], "content": [*turns[-1]["content"], *message["content"]]}
        else:
            turns.append(message)
    return turns
