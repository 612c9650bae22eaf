"""Extensions of the agent: skills and commands of the user's own, each with the reason why it counts or not."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from core.protocol.queries.base import Answer, Query

ExtensionScope = Literal["project", "user"]


class SkippedExtension(Struct, frozen=True, kw_only=True):
    """A file that makes no extension, with the reason."""

    path: str
    reason: str


class PromptCommand(Struct, frozen=True, kw_only=True):
    """A thing that `/name` calls in a prompt. `hint`: the words that it takes; `source`: the folder it comes from."""

    name: str
    description: str
    kind: Literal["skill", "command"]
    scope: ExtensionScope
    source: str
    path: str
    hint: str = ""
    problems: tuple[str, ...] = ()


class CommandsQuery(Query, frozen=True, kw_only=True, tag="commands"):
    """Everything that a prompt can call by name, beside the commands of the program itself."""


class CommandsAnswer(Answer, frozen=True, kw_only=True, tag="commands"):
    """`is_trusted` False: nothing of the project is among them."""

    commands: tuple[PromptCommand, ...] = ()
    skipped: tuple[SkippedExtension, ...] = ()
    is_trusted: bool = True


class CommandPreviewQuery(Query, frozen=True, kw_only=True, tag="command.preview"):
    """The prompt that `text` ("/name arguments") would send. Nothing runs for it."""

    text: str


class CommandPreviewAnswer(Answer, frozen=True, kw_only=True, tag="command.preview"):
    """`text`: with `!` before each of the `runs` that would put their output there when it is sent."""

    path: str
    text: str
    runs: tuple[str, ...] = ()


class LoadedSkill(Struct, frozen=True, kw_only=True):
    """A skill. `state`: the model is told its description, its name alone, or nothing, or has its text already;
    `reason` says why. `note`: what the user should know of it."""

    name: str
    description: str
    path: str
    scope: ExtensionScope
    source: str
    state: Literal["open", "offered", "named", "hidden"]
    reason: str
    note: str = ""


class SkillsQuery(Query, frozen=True, kw_only=True, tag="skills"):
    """Every skill of the user and the project, and why the model is told of it or not."""


class SkillsAnswer(Answer, frozen=True, kw_only=True, tag="skills"):
    """`is_trusted` False: none of the project's."""

    skills: tuple[LoadedSkill, ...] = ()
    skipped: tuple[SkippedExtension, ...] = ()
    is_trusted: bool = True
