"""The native dialect: function calls. Text is text, and a call in it does nothing."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from core.dialects.base import Ending, Heard, Listener, Result, Said
from core.dialects.command import CommandListener
from core.dialects.tags import TagListener
from core.protocol.messages import AssistantMessage, Message


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

    def listener(self, *, job: str = "") -> Listener:
        return PlainListener()

    def task(self, prompt: str) -> str:
        return prompt

    def sent(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """As it stands; calls that were once written into the text are function calls like the others."""
        return tuple(_without_call_text(message) for message in messages)

    def result(self, result: Result) -> str:
        return result.content

    def ends(self, result: Result) -> bool:
        return False

    def final(self, result: Result) -> str:
        return ""


def _without_call_text(message: Message) -> Message:
    if not isinstance(message, AssistantMessage) or not message.dialect or not message.tool_calls:
        return message
    listener: Listener = CommandListener() if message.dialect == "command" else TagListener()
    heard = [*listener.feed(message.content), *listener.finish()]
    return replace(message, content="".join(each.text for each in heard if isinstance(each, Said)).strip(), wire=None)
