"""The contract of a dialect: how a model expresses its actions, and how it gets their results.

A dialect is pure: text in, tool calls out; results in, text out. Every call that it parses passes the same gate as a
function call, and no part of an answer acts before the answer is complete.
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
    """Start of a call. `index` counts the calls of an answer, `name` is the tool's."""

    index: int
    name: str


class CallFinished(Struct, frozen=True, kw_only=True):
    """A complete call. `arguments` is a JSON object as text; `problem`: the reason why it must not be run, "" = it
    may."""

    index: int
    name: str
    arguments: str
    problem: str = ""


AnswerPart = AnswerText | CallStarted | CallFinished


class AnswerEnding(Struct, frozen=True, kw_only=True):
    """The end of an answer. `problem`: an objection to its form for the model, and no call is run; `is_done`: the
    answer declares the task done."""

    problem: str = ""
    is_done: bool = False


@dataclass
class AnswerParser(ABC):
    """Incremental parser of one answer, however the stream is chunked. `ending` is valid after `finish`."""

    ending: AnswerEnding = field(default_factory=AnswerEnding, init=False)
    _parts: list[AnswerPart] = field(default_factory=list, init=False)

    @abstractmethod
    def feed(self, text: str) -> list[AnswerPart]:
        """Read a chunk, and return the parts that are certain now."""

    @abstractmethod
    def finish(self) -> list[AnswerPart]:
        """Parse the end of the answer. May be called once."""

    def _take_parts(self) -> list[AnswerPart]:
        parts, self._parts = self._parts, []
        return parts


class CallResult(Struct, frozen=True, kw_only=True):
    """Result of a call. `content` is the gate's message to the model; the other fields are those of a command.

    `exit_code` None: it has none (no command, not run, or stopped). `command` "" = the call was no command, or it did
    not run. `notes`: lines about a command besides its output: what it changed, and what it left running.
    """

    content: str
    command: str = ""
    exit_code: int | None = None
    output: str = ""
    is_timed_out: bool = False
    is_running: bool = False
    notes: tuple[str, ...] = ()


class Dialect(ABC):
    """One form of conversation with a model."""

    name: ClassVar[str]

    @abstractmethod
    def create_parser(self, *, job: str = "") -> AnswerParser:
        """Create the parser of one answer. `job`: the command that is still running in the model's terminal, "" =
        none."""

    def format_prompt(self, prompt: str) -> str:
        """Format a prompt of the user for the model."""
        return prompt

    @abstractmethod
    def convert_history(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """Convert the history to the messages for this model. A longer history begins with the messages of a shorter
        one."""

    @abstractmethod
    def format_result(self, result: CallResult) -> str:
        """Format the result of a call for the model."""

    def is_final(self, result: CallResult) -> bool:
        """True if this result ends the turn."""
        return False

    def extract_submission(self, result: CallResult) -> str:
        """Extract the submission from a result that ends the turn, "" = none."""
        return ""


def encode_arguments(arguments: Mapping[str, object]) -> str:
    """Encode arguments in the text form of a function call."""
    return json.dumps(arguments, ensure_ascii=False)


def flatten_history(messages: Sequence[Message], format_call: FormatCall) -> tuple[Message, ...]:
    """Convert a history for a model without function calls: calls become text, results become the user's messages.

    Roles alternate, as strict servers demand. `format_call` formats a call of another dialect as text. An answer whose
    text differs from the model's original no longer has the form that came over the wire.
    """
    flat_messages: list[Message] = []
    for message in messages:
        match message:
            case UserMessage(content=content, attachments=files) | ToolMessage(content=content, attachments=files):
                _append_alternating(flat_messages, UserMessage(content=content, attachments=files))
            case AssistantMessage():
                answer = _format_answer(message, format_call)
                if answer.strip():
                    is_original = answer == message.content and not any(call.wire_id for call in message.tool_calls)
                    wire = message.wire if is_original else None
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
