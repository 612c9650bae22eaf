"""The contract of a dialect: how a model says what it wants done, and how it is told what came of it.

A dialect is pure: text in, tool calls out; results in, text out. Whatever it understands takes the same way through
the gate as a function call, and nothing of an answer acts before the answer is complete.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from core.protocol.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage

FormatCall = Callable[[ToolCall], str]


class AnswerText(Struct, frozen=True):
    """Text for the user."""

    text: str


class CallStarted(Struct, frozen=True):
    """Start of a call that comes in. `index` counts the calls of an answer, `name` is the tool's."""

    index: int
    name: str


class CallFinished(Struct, frozen=True, kw_only=True):
    """A complete call. `arguments` is a JSON object as text; `problem` says why it must not be run, "" = it may."""

    index: int
    name: str
    arguments: str
    problem: str = ""


AnswerPart = AnswerText | CallStarted | CallFinished


class AnswerEnding(Struct, frozen=True, kw_only=True):
    """Sum of an answer. `problem`: what the model is told of its form, none is run; `is_done`: it says it is done."""

    problem: str = ""
    is_done: bool = False


@dataclass
class AnswerParser(ABC):
    """Incremental parser of one answer, wherever the stream was cut. `ending` is valid after `finish`."""

    ending: AnswerEnding = field(default_factory=AnswerEnding, init=False)
    _parts: list[AnswerPart] = field(default_factory=list, init=False)

    @abstractmethod
    def feed(self, text: str) -> list[AnswerPart]:
        """Read on, and return what became certain."""

    @abstractmethod
    def finish(self) -> list[AnswerPart]:
        """Parse the end of the answer. To be called once."""

    def _take_parts(self) -> list[AnswerPart]:
        parts, self._parts = self._parts, []
        return parts


class CallResult(Struct, frozen=True, kw_only=True):
    """Result of a call. `content` is what the gate would tell the model; the rest is a command's own.

    `exit_code` None: it has none (no command, not run, or stopped); `is_running`: it still runs. `command` "" = the
    call was no command, or it did not run.
    """

    content: str
    command: str = ""
    exit_code: int | None = None
    output: str = ""
    is_timed_out: bool = False
    is_running: bool = False


class Dialect(ABC):
    """One way to speak with a model."""

    name: ClassVar[str]

    @abstractmethod
    def create_parser(self, *, job: str = "") -> AnswerParser:
        """Create the parser of one answer. `job`: the command that still runs in the model's terminal, "" = none."""

    def format_prompt(self, prompt: str) -> str:
        """Format what the model is sent for a prompt of the user's."""
        return prompt

    @abstractmethod
    def convert_history(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """Convert the history to what this model is sent. A longer history begins with what a shorter one gave."""

    @abstractmethod
    def format_result(self, result: CallResult) -> str:
        """Format what the model is told of a call."""

    def is_final(self, result: CallResult) -> bool:
        """True if this result ends the turn."""
        return False

    def extract_submission(self, result: CallResult) -> str:
        """Extract what the model hands in with a result that ends the turn, "" = nothing."""
        return ""


def encode_arguments(arguments: Mapping[str, object]) -> str:
    """Encode arguments as the text that a function call would have."""
    return json.dumps(arguments, ensure_ascii=False)


def flatten_history(messages: Sequence[Message], format_call: FormatCall) -> tuple[Message, ...]:
    """Convert a history for a model that knows no function calls: calls are text, results are the user's words.

    Roles alternate, as strict servers demand. `written` formats a call as text, for what was said in another
    dialect. An answer whose text is not what the model wrote is no longer the one that came over the wire.
    """
    flat_messages: list[Message] = []
    for message in messages:
        match message:
            case UserMessage(content=content, attachments=shown) | ToolMessage(content=content, attachments=shown):
                _append_alternating(flat_messages, UserMessage(content=content, attachments=shown))
            case AssistantMessage():
                answer = _format_answer(message, format_call)
                if answer.strip():
                    as_it_came = answer == message.content and not any(call.wire_id for call in message.tool_calls)
                    wire = message.wire if as_it_came else None
                    _append_alternating(
                        flat_messages, replace(message, content=answer, tool_calls=(), in_text=(), wire=wire)
                    )
    return tuple(flat_messages)


def _format_answer(message: AssistantMessage, format_call: FormatCall) -> str:
    if message.dialect:
        return message.content
    calls = (call for call in message.tool_calls if call.id not in message.in_text)
    return "\n".join(filter(None, (message.content, *map(format_call, calls))))


def _append_alternating(messages: list[Message], message: UserMessage | AssistantMessage) -> None:
    last = messages[-1] if messages else None
    if isinstance(last, UserMessage | AssistantMessage) and type(last) is type(message):
        merged_message = replace(last, content=f"{last.content}\n\n{message.content}")
        if isinstance(merged_message, UserMessage) and isinstance(message, UserMessage):
            messages[-1] = replace(merged_message, attachments=(*merged_message.attachments, *message.attachments))
        else:
            messages[-1] = replace(merged_message, wire=None)
    else:
        messages.append(message)
