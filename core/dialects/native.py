"""The native dialect: function calls.

Text remains text, and a call in it is not run; only a clearly intended edit is applied (see `written_edits`). The model
gets its text back unchanged, and the result as a message of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from core.dialects.command import CommandParser
from core.dialects.dialect import AnswerParser, AnswerPart, AnswerText, CallResult, Dialect
from core.dialects.tags import TagParser
from core.dialects.written_edits import WrittenEdit, WrittenEditParser
from core.protocol.messages import AssistantMessage, Message, ToolMessage, UserMessage


class PlainTextParser(AnswerParser):
    """Parser of plain text."""

    def feed(self, text: str) -> list[AnswerPart]:
        return [AnswerText(text)]

    def finish(self) -> list[AnswerPart]:
        return []


@dataclass(frozen=True)
class NativeDialect(Dialect):
    """The dialect of models with function calls."""

    name = "native"

    accepts: Callable[[WrittenEdit], bool] | None = None

    def create_parser(self, *, job: str = "") -> AnswerParser:
        return WrittenEditParser(self.accepts) if self.accepts else PlainTextParser()

    def convert_history(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """Return the history unchanged, except that calls of other dialects become function calls."""
        converted_messages: list[Message] = []
        in_text: set[str] = set()
        results: list[str] = []
        for message in messages:
            if isinstance(message, ToolMessage) and message.call_id in in_text:
                results.append(
                    message.content
                )  # these come after the results of function calls, which have to follow the calls
                continue
            if results and not isinstance(message, ToolMessage):
                converted_messages.append(_build_results_message(results))
                results = []
            if isinstance(message, AssistantMessage) and message.in_text:
                in_text.update(message.in_text)
                calls = tuple(call for call in message.tool_calls if call.id not in in_text)
                converted_messages.append(replace(message, tool_calls=calls, in_text=()))
            elif isinstance(message, AssistantMessage) and message.dialect and message.tool_calls:
                converted_messages.append(_strip_call_text(message))
            else:
                converted_messages.append(message)
        return (*converted_messages, _build_results_message(results)) if results else tuple(converted_messages)

    def format_result(self, result: CallResult) -> str:
        return result.content


def _build_results_message(results: Sequence[str]) -> UserMessage:
    text = "\n\n".join(f"The edit in your text was treated as a call. {result}" for result in results)
    return UserMessage(content=f"<system_reminder>\n{text}\n</system_reminder>", origin="program")


def _strip_call_text(message: AssistantMessage) -> AssistantMessage:
    parser: AnswerParser = CommandParser() if message.dialect == "command" else TagParser()
    parts = [*parser.feed(message.content), *parser.finish()]
    return replace(
        message, content="".join(part.text for part in parts if isinstance(part, AnswerText)).strip(), wire=None
    )
