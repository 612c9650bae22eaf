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
        results = [each for each in before if isinstance(each, ToolMessage)]
        told = "\n".join(each.content for each in before if isinstance(each, UserMessage))
        said = "\n".join(each.content for each in results)
        wanted = ((condition.result, said), (condition.prompt, self.prompt), (condition.told, told))
        return (
            all(pattern is None or pattern.search(text) for pattern, text in wanted)
            and condition.mode in {"", self.mode_at(moment)}
            and condition.step in {0, moment + 1}
            and (condition.failed is None or condition.failed == any(each.is_error for each in results))
        )

    def mode_at(self, moment: int) -> str:
        """The mode that the model was last told of."""
        said = [each.content for each in chain(*self._moments[: moment + 1]) if isinstance(each, UserMessage)]
        return next(filter(None, map(find_mode, reversed(said))), self.mode)

    def fill_text(self, text: str) -> str:
        """The text with its places filled in; what is not known is filled with nothing."""
        return _PLACE.sub(lambda found: self._look_up(found[1]), text) if "{{" in text else text

    def fill_value(self, value: Any) -> Any:
        """The same for every text of a tree of JSON values."""
        match value:
            case str():
                return self.fill_text(value)
            case dict():
                return {key: self.fill_value(each) for key, each in value.items()}
            case list():
                return [self.fill_value(each) for each in value]
            case _:
                return value

    def _look_up(self, name: str) -> str:
        results = [each.content for each in chain(*self._moments) if isinstance(each, ToolMessage)]
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
    matches = [found for text in results for found in pattern.finditer(text)]
    return (matches[-1][1] if pattern.groups else matches[-1][0]) if matches else ""


def find_mode(text: str) -> str:
    """The mode that a message tells the model of, "" = none."""
    found = _MODE.findall(text)
    return found[-1].lower() if found else ""


def split_scenes(messages: Sequence[Message]) -> list[ScriptScene]:
    """One scene for each prompt, at least one. What the user sent while the model worked is part of its scene."""
    found: list[ScriptScene] = []
    mode = workspace = ""
    for message in messages:
        if isinstance(message, UserMessage):
            mode = find_mode(message.content) or mode
            if place := _WORKSPACE.search(message.content):
                workspace = place[1]
            if message.origin == "user" and not _STEERED.match(message.content):
                prompt = next(iter(_QUERY.findall(message.content)[-1:]), message.content)
                found.append(ScriptScene(prompt, mode, workspace))
                continue
        if found:
            found[-1].add(message)
    return found or [ScriptScene("", mode, workspace)]
