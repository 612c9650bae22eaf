"""Texts that the user calls by name in a prompt: command files (`/name`) and snippets (`;name`).

A command file may hold arguments, `!` commands and `@` files; Claude, Codex and Cursor each fill these in differently,
so the folder of the file decides. A snippet is inserted into the prompt as it is, and the user sees it before it is
sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from core.extensions.extension_files import (
    ExtensionFolder,
    InvalidExtension,
    Scope,
    SkippedFile,
    collect_extensions,
    describe_unknown_key,
    get_line,
    parse_names,
    read_name,
    split_known_keys,
)
from core.extensions.rendering import Dialect
from core.extensions.skills import PROMPT_KEYS, Skill

MAX_SUMMARY: Final = 200
_DIALECTS: Final[dict[str, Dialect]] = {".cursor": "plain", ".codex": "codex"}
_UNUSED: Final = {"model": "model", "context": "context", "agent": "agent", "hooks": "hooks", "effort": "effort"}
_SNIPPET_KEYS: Final = {"description": "description"}


class CommandFile(Struct, frozen=True, kw_only=True):
    """A user-defined command. `dialect`: the style of its placeholders; `group`: its folder below `commands/`, "" =
    none."""

    name: str
    description: str
    body: str
    path: str
    scope: Scope
    source: str
    dialect: Dialect
    group: str = ""
    argument_hint: str = ""
    arguments: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


class CommandSet(Struct, frozen=True, kw_only=True):
    """The commands, strongest first, and the skipped files with reasons."""

    commands: tuple[CommandFile, ...] = ()
    skipped: tuple[SkippedFile, ...] = ()


def load_commands(folders: Iterable[ExtensionFolder]) -> CommandSet:
    """Load the commands of these folders, strongest first."""
    commands, skipped_files = collect_extensions("command", folders, _list_command_files, _read_command)
    return CommandSet(commands=commands, skipped=skipped_files)


def _list_command_files(folder: ExtensionFolder) -> list[str]:
    kinds = ("commands", "prompts") if folder.word == ".codex" and folder.scope == "user" else ("commands",)
    return [path for kind in kinds for path in folder.list_files(kind, ".md")]


def _read_command(folder: ExtensionFolder, path: str) -> CommandFile:
    text = folder.read_text(path)
    if not text.body:
        raise InvalidExtension("it is empty")
    values, unknown = split_known_keys(text.front, PROMPT_KEYS)
    problems = [*text.notes, *(describe_unknown_key(key, PROMPT_KEYS) for key in unknown)]
    problems += [f"`{key}` is not used" for key in _UNUSED if key in values]
    above, _, file = path.removeprefix(folder.join("")).rpartition("/")
    name = read_name(file.removesuffix(".md"), problems)
    return CommandFile(
        name=folder.qualify(name),
        description=(get_line(values, "description") or _find_first_line(text.body))[:MAX_SUMMARY],
        body=text.body,
        path=folder.show(path),
        scope=folder.scope,
        source=folder.plugin or folder.word,
        dialect=_DIALECTS.get(folder.word, "claude"),
        group=above.partition("/")[2],
        argument_hint=get_line(values, "argument_hint"),
        arguments=tuple(word for entry in parse_names(values, "arguments") for word in entry.split()),
        problems=tuple(problems),
    )


def _find_first_line(body: str) -> str:
    return next((line.strip(" #*") for line in body.splitlines() if line.strip(" #*-")), "")


def find_prompt_command(
    name: str, skills: Sequence[Skill], commands: Sequence[CommandFile]
) -> Skill | CommandFile | None:
    """Find the target of `/name`: a skill before a command; `project:name` and `user:name` search one scope."""
    scope, _, short = name.partition(":")
    rows: list[Skill | CommandFile] = [skill for skill in skills if skill.is_user_invocable]
    for command in (*rows, *commands):
        if command.name == name or (scope == command.scope and command.name == short):
            return command
    return None


class SnippetFile(Struct, frozen=True, kw_only=True):
    """A named text. `$0` in it is the position of the cursor."""

    name: str
    description: str
    text: str
    path: str
    scope: Scope
    problems: tuple[str, ...] = ()


class SnippetSet(Struct, frozen=True, kw_only=True):
    """The snippets, strongest first, and the skipped files with reasons."""

    snippets: tuple[SnippetFile, ...] = ()
    skipped: tuple[SkippedFile, ...] = ()


def load_snippets(folders: Iterable[ExtensionFolder]) -> SnippetSet:
    """Load the snippets of these folders, strongest first."""
    snippets, skipped_files = collect_extensions(
        "snippet", folders, lambda folder: folder.list_files("snippets", ".md"), _read_snippet
    )
    return SnippetSet(snippets=snippets, skipped=skipped_files)


def _read_snippet(folder: ExtensionFolder, path: str) -> SnippetFile:
    text = folder.read_text(path)
    if not text.body:
        raise InvalidExtension("it is empty")
    values, unknown = split_known_keys(text.front, _SNIPPET_KEYS)
    problems = [*text.notes, *(describe_unknown_key(key, _SNIPPET_KEYS) for key in unknown)]
    name = read_name(path.rpartition("/")[2].removesuffix(".md"), problems)
    first = next((line.strip(" #*-") for line in text.body.splitlines() if line.strip(" #*-")), "")
    return SnippetFile(
        name=folder.qualify(name),
        description=(get_line(values, "description") or first)[:MAX_SUMMARY],
        text=text.body,
        path=folder.show(path),
        scope=folder.scope,
        problems=tuple(problems),
    )
