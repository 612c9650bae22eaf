"""What a dialect is: how a model says what it wants done, and how it is told what came of it.

A dialect is pure: text in, tool calls out; results in, text out. Whatever it understands takes the same way through
the gate as a function call, and nothing of an answer acts before the answer is complete.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from core.protocol.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage

Written = Callable[[ToolCall], str]


class Said(Struct, frozen=True):
    """Text for the user."""

    text: str


class CallBegun(Struct, frozen=True):
    """A call begins to come in. `index` counts the calls of an answer, `name` is the tool's."""

    index: int
    name: str


class CallEnded(Struct, frozen=True, kw_only=True):
    """A call is complete. `arguments` is a JSON object as text; `problem` says why it must not be run, "" = it may."""

    index: int
    name: str
    arguments: str
    problem: str = ""


Heard = Said | CallBegun | CallEnded


class Ending(Struct, frozen=True, kw_only=True):
    """What an answer amounts to, beside its calls. `problem`: its form is wrong, so none of it is to be run, and this
    is what the model is told. `over`: it says that the work is done."""

    problem: str = ""
    over: bool = False


class Listener(Protocol):
    """Listens to one answer. What it hears does not depend on where the stream was cut."""

    def feed(self, text: str) -> list[Heard]: ...

    def finish(self) -> list[Heard]:
        """The end of the answer. To be called once."""
        ...

    @property
    def ending(self) -> Ending:
        """Valid after `finish`."""
        ...


class Result(Struct, frozen=True, kw_only=True):
    """What came of a call. `content` is what the gate would tell the model; the rest is a command's own.

    `exit_code` None: it has none (no command, not run, or stopped); `running`: it still runs. `command` "" = the call
    was no command, or it did not run.
    """

    content: str
    command: str = ""
    exit_code: int | None = None
    output: str = ""
    timed_out: bool = False
    running: bool = False


class Dialect(Protocol):
    """One way to speak with a model."""

    @property
    def name(self) -> str: ...

    def listener(self, *, job: str = "") -> Listener:
        """For one answer. `job` is the id of the command that still runs in the model's terminal, "" = none."""
        ...

    def task(self, prompt: str) -> str:
        """What the model is sent for a prompt of the user's."""
        ...

    def sent(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """The history as this model is sent it. A longer history begins with what a shorter one gave."""
        ...

    def result(self, result: Result) -> str:
        """What the model is told of a call."""
        ...

    def ends(self, result: Result) -> bool:
        """Whether this result ends the turn."""
        ...

    def final(self, result: Result) -> str:
        """What the model hands in with a result that ends the turn, "" = nothing."""
        ...


def as_json(arguments: Mapping[str, object]) -> str:
    """Arguments as the text that a function call would have."""
    return json.dumps(arguments, ensure_ascii=False)


def spoken(messages: Sequence[Message], written: Written) -> tuple[Message, ...]:
    """A history for a model that knows no function calls: calls are text, results are the user's words.

    Roles alternate, as strict servers demand. `written` is a call as text, for what was said in another dialect. An
    answer whose text is not what the model wrote is no longer the one that came over the wire.
    """
    found: list[Message] = []
    for message in messages:
        match message:
            case UserMessage(content=content, attachments=shown) | ToolMessage(content=content, attachments=shown):
                _append(found, UserMessage(content=content, attachments=shown))
            case AssistantMessage():
                said = _as_said(message, written)
                if said.strip():
                    as_it_came = said == message.content and not any(call.wire_id for call in message.tool_calls)
                    wire = message.wire if as_it_came else None
                    _append(found, replace(message, content=said, tool_calls=(), in_text=(), wire=wire))
    return tuple(found)


def _as_said(message: AssistantMessage, written: Written) -> str:
    if message.dialect:
        return message.content
    calls = (call for call in message.tool_calls if call.id not in message.in_text)
    return "\n".join(filter(None, (message.content, *map(written, calls))))


def _append(found: list[Message], message: UserMessage | AssistantMessage) -> None:
    last = found[-1] if found else None
    if isinstance(last, UserMessage | AssistantMessage) and type(last) is type(message):
        joined = replace(last, content=f"{last.content}\n\n{message.content}")
        if isinstance(joined, UserMessage) and isinstance(message, UserMessage):
            found[-1] = replace(joined, attachments=(*joined.attachments, *message.attachments))
        else:
            found[-1] = replace(joined, wire=None)
    else:
        found.append(message)
