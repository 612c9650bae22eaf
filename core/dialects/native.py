"""The native dialect: function calls. Text is text, and a call in it does nothing; only an edit that is plainly meant
is taken for one (see `edit_reader`). What the model wrote goes back as it was, what came of it as the program's words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from core.dialects.base import Ending, Heard, Listener, Result, Said
from core.dialects.command import CommandListener
from core.dialects.edit_reader import Candidate, EditListener
from core.dialects.tags import TagListener
from core.protocol.messages import AssistantMessage, Message, ToolMessage, UserMessage


class PlainListener:
    """Hears text only."""

    ending = Ending()

    def feed(self, text: str) -> list[Heard]:
        return [Said(text)]

    def finish(self) -> list[Heard]:
        return []


class NativeDialect:
    """What models with function calls speak."""

    name = "native"

    def __init__(self, accepts: Callable[[Candidate], bool] | None = None) -> None:
        self._accepts = accepts

    def listener(self, *, job: str = "") -> Listener:
        return EditListener(self._accepts) if self._accepts else PlainListener()

    def task(self, prompt: str) -> str:
        return prompt

    def sent(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """As it stands; calls that were written into the text in another dialect are function calls like the others."""
        found: list[Message] = []
        in_text: set[str] = set()
        told: list[str] = []
        for message in messages:
            if isinstance(message, ToolMessage) and message.call_id in in_text:
                told.append(message.content)  # after the results of function calls, which have to follow these
                continue
            if told and not isinstance(message, ToolMessage):
                found.append(_told(told))
                told = []
            if isinstance(message, AssistantMessage) and message.in_text:
                in_text.update(message.in_text)
                calls = tuple(call for call in message.tool_calls if call.id not in in_text)
                found.append(replace(message, tool_calls=calls, in_text=()))
            else:
                found.append(_without_call_text(message))
        return (*found, _told(told)) if told else tuple(found)

    def result(self, result: Result) -> str:
        return result.content

    def ends(self, result: Result) -> bool:
        return False

    def final(self, result: Result) -> str:
        return ""


def _told(results: Sequence[str]) -> UserMessage:
    text = "\n\n".join(f"What you wrote into your text was taken for an edit. {result}" for result in results)
    return UserMessage(content=f"<system_reminder>\n{text}\n</system_reminder>", origin="program")


def _without_call_text(message: Message) -> Message:
    if not isinstance(message, AssistantMessage) or not message.dialect or not message.tool_calls:
        return message
    listener: Listener = CommandListener() if message.dialect == "command" else TagListener()
    heard = [*listener.feed(message.content), *listener.finish()]
    return replace(message, content="".join(each.text for each in heard if isinstance(each, Said)).strip(), wire=None)
