"""Whether a history is one that both providers accept: every call answered once, in order, and nothing empty."""

from __future__ import annotations

import json
from collections.abc import Sequence

from core.protocol.messages import AssistantMessage, Message, ToolMessage, UserMessage


def faults(messages: Sequence[Message]) -> list[str]:
    """What is wrong with the history, one line each; nothing = valid."""
    found: list[str] = []
    seen: set[str] = set()
    waiting: list[str] = []
    if messages and not isinstance(messages[0], UserMessage):
        found.append("does not begin with a user message")
    for number, message in enumerate(messages):
        if waiting and not isinstance(message, ToolMessage):
            found.append(f"{number}: calls without a result: {waiting}")
            waiting = []
        match message:
            case UserMessage(content=content):
                found += [f"{number}: empty user message"] * (not content.strip())
            case AssistantMessage():
                if not message.content.strip() and not message.tool_calls:
                    found.append(f"{number}: empty assistant message")
                waiting = [call.id for call in message.tool_calls]
                found += [f"{number}: call id used again: {each}" for each in waiting if each in seen]
                found += [f"{number}: duplicate ids"] * (len(set(waiting)) != len(waiting))
                found += [f"{number}: a call without a name"] * (not all(call.name for call in message.tool_calls))
                seen.update(waiting)
            case ToolMessage(call_id=call_id, content=content):
                if not waiting or waiting[0] != call_id:
                    found.append(f"{number}: result for {call_id}, expected {waiting[:1]}")
                waiting = [each for each in waiting if each != call_id]
                found += [f"{number}: empty result"] * (not content.strip())
    if waiting:
        found.append(f"the end: calls without a result: {waiting}")
    return found


def is_valid(messages: Sequence[Message]) -> bool:
    json.dumps([str(message) for message in messages])
    return faults(messages) == []
