"""The place at which a conversation stands, read from its messages alone: the prompt, what was answered to it, what
came of that."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain
from typing import Any, Final

from core.protocol.messages import AssistantMessage, Message, ToolMessage, UserMessage
from core.providers.scripted.script_file import ScriptCondition

_QUERY: Final = re.compile(r"<user_query>\n?(.*?)\n?</user_query>", re.DOTALL)
_STEERED: Final = re.compile(r"\A<system_reminder>\nThe user sent this while you were working")
_MODE: Final = re.compile(r"^(Agent|Plan|Ask|Debug) mode:", re.MULTILINE)
_WORKSPACE: Final = re.compile(r"^Workspace: (.+)$", re.MULTILINE)
_PLACE: Final = re.compile(r"\{\{\s*(prompt|workspace|mode|last_tool_result|find:.+?)\s*\}\}", re.DOTALL)


class ScriptScene:
    """One prompt and the messages after it, up to the next prompt. `moment` n = before the n-th answer, from 0."""

    def __init__(self, prompt: str, mode: str, workspace: str) -> None:
        self.prompt, self.mode, self.workspace = prompt, mode, workspace
        self._moments: list[list[UserMessage | ToolMessage]] = [[]]  # what was said up to each

    @property
    def answers(self) -> int:
        return len(self._moments) - 1

    def add(self, message: Message) -> None:
        if isinstance(message, AssistantMessage):
            self._moments.append([])
        else:
            self._moments[-1].append(message)

    def holds(self, condition: ScriptCondition | None, moment: int) -> bool:
        """Return True if a step may be played at a moment."""
        if condition is None:
            return True
        before = self._moments[moment]
        results = [message for message in before if isinstance(message, ToolMessage)]
        user_text = "\n".join(message.content for message in before if isinstance(message, UserMessage))
        result_text = "\n".join(result.content for result in results)
        checks = ((condition.result, result_text), (condition.prompt, self.prompt), (condition.told, user_text))
        return (
            all(pattern is None or pattern.search(text) for pattern, text in checks)
            and condition.mode in {"", self.mode_at(moment)}
            and condition.step in {0, moment + 1}
            and (condition.failed is None or condition.failed == any(result.is_error for result in results))
        )

    def mode_at(self, moment: int) -> str:
        """The mode that the model was last told of."""
        user_texts = [
            message.content for message in chain(*self._moments[: moment + 1]) if isinstance(message, UserMessage)
        ]
        return next(filter(None, map(find_mode, reversed(user_texts))), self.mode)

    def fill_text(self, text: str) -> str:
        """The text with its places filled in; what is not known is filled with nothing."""
        return _PLACE.sub(lambda match: self._look_up(match[1]), text) if "{{" in text else text

    def fill_value(self, value: Any) -> Any:
        """The same for every text of a tree of JSON values."""
        match value:
            case str():
                return self.fill_text(value)
            case dict():
                return {key: self.fill_value(child) for key, child in value.items()}
            case list():
                return [self.fill_value(child) for child in value]
            case _:
                return value

    def _look_up(self, name: str) -> str:
        results = [message.content for message in chain(*self._moments) if isinstance(message, ToolMessage)]
        match name:
            case "prompt":
                return self.prompt
            case "workspace":
                return self.workspace
            case "mode":
                return self.mode_at(self.answers)
            case "last_tool_result":
                return results[-1] if results else ""
            case _:
                return _evaluate(name.removeprefix("find:"), results)


def _evaluate(expression: str, results: Sequence[str]) -> str:
    try:
        pattern = re.compile(expression)
    except re.error:
        return ""
    matches = [match for text in results for match in pattern.finditer(text)]
    return (matches[-1][1] if pattern.groups else matches[-1][0]) if matches else ""


def find_mode(text: str) -> str:
    """The mode that a message tells the model of, "" = none."""
    matches = _MODE.findall(text)
    return matches[-1].lower() if matches else ""


def split_scenes(messages: Sequence[Message]) -> list[ScriptScene]:
    """One scene for each prompt, at least one. What the user sent while the model worked is part of its scene."""
    scenes: list[ScriptScene] = []
    mode = workspace = ""
    for message in messages:
        if isinstance(message, UserMessage):
            mode = find_mode(message.content) or mode
            if match := _WORKSPACE.search(message.content):
                workspace = match[1]
            if message.origin == "user" and not _STEERED.match(message.content):
                prompt = next(iter(_QUERY.findall(message.content)[-1:]), message.content)
                scenes.append(ScriptScene(prompt, mode, workspace))
                continue
        if scenes:
            scenes[-1].add(message)
    return scenes or [ScriptScene("", mode, workspace)]
