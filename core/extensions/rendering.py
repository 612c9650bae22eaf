"""Rendering of prompts from skills and command files: placeholders of arguments, and commands whose output is inserted.

Commands are parsed in the text of the file, so that neither an argument nor the output of another command can inject
one. Placeholders depend on the folder of the file: `$0` is the first argument for Claude, `$1` for Codex; Cursor has
none.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal

from msgspec import Struct

from core.patterns import compile_lazily

Dialect = Literal["claude", "codex", "plain"]
_INJECTION: Final = compile_lazily(
    r"(?:^|(?<=\s))!`(?P<inline>[^`\n]+)`|^```!\s*\n(?P<block>.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL
)
_PLACEHOLDER: Final = compile_lazily(
    r"\\\$|\$ARGUMENTS\[(?P<index>\d+)\]|\$\{(?P<variable>[A-Z_]+)\}|\$(?P<name>[A-Za-z_]\w*)|\$(?P<number>\d)(?!\d)"
)


class PromptPart(Struct, frozen=True):
    """A part of a prompt: text, or a command whose output replaces it."""

    text: str
    is_command: bool = False


class PromptArguments(Struct, frozen=True, kw_only=True):
    """The words after a name: `text`; `names` of its words; `variables` of the program, by name.

    `takes_numbers`: `$1` is a placeholder even without arguments; otherwise it is text, such as that of a script.
    """

    text: str = ""
    names: Sequence[str] = ()
    variables: Mapping[str, str] = {}
    dialect: Dialect = "claude"
    takes_numbers: bool = False


def split_arguments(text: str) -> list[str]:
    """Split arguments like a shell; at blanks if quotes do not match."""
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def render_parts(body: str, arguments: PromptArguments) -> tuple[PromptPart, ...]:
    """Return the parts of a text with its arguments filled in. Arguments without a placeholder come last."""
    if arguments.dialect == "plain":
        full_text = f"{body}\n\n{arguments.text}" if arguments.text else body
        return (PromptPart(full_text),)
    filler = _PlaceholderFiller(arguments)
    parts = [PromptPart(filler.fill(text), is_command) for text, is_command in _split_injections(body)]
    if arguments.text and not filler.has_used_arguments:
        parts.append(PromptPart(f"\n\nARGUMENTS: {arguments.text}"))
    return tuple(parts)


def _split_injections(body: str) -> Iterator[tuple[str, bool]]:
    offset = 0
    for match in _INJECTION.finditer(body):
        if match.start() > offset:
            yield body[offset : match.start()], False
        yield (match["inline"] or match["block"] or "").strip(), True
        offset = match.end()
    if body[offset:]:
        yield body[offset:], False


class _PlaceholderFiller:
    """A replacer of placeholders. `has_used_arguments`: an argument had a placeholder."""

    def __init__(self, arguments: PromptArguments) -> None:
        self._arguments = arguments
        self._words = split_arguments(arguments.text)
        self._takes_numbers = bool(arguments.text) or arguments.takes_numbers
        self.has_used_arguments = False

    def fill(self, text: str) -> str:
        return _PLACEHOLDER.sub(self._replace, text)

    def _replace(self, match: re.Match[str]) -> str:
        arguments = self._arguments
        if match.group() == "\\$":
            return "$"
        if name := match["variable"]:
            return arguments.variables.get(name, match.group())
        index = self._find_index(match)
        if index is None and match["name"] != "ARGUMENTS":
            return match.group()
        self.has_used_arguments = True
        if index is None:
            return arguments.text
        return self._words[index] if 0 <= index < len(self._words) else ""

    def _find_index(self, match: re.Match[str]) -> int | None:
        """Return the index of the word for a placeholder, None = no single one."""
        if match["name"] in self._arguments.names:
            return list(self._arguments.names).index(match["name"])
        if match["number"] and self._takes_numbers:
            return int(match["number"]) - (self._arguments.dialect == "codex")
        return int(match["index"]) if match["index"] else None
