"""`/init`: a survey of the project for the agent that writes its AGENTS.md.

Files are read by the agent's reader, which withholds secrets.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final, NamedTuple

from core.engine.session.session import Session
from core.engine.turns.prompt_sources import build_session_reader, may_show
from core.errors import CommandRejected, PathRefused
from core.index.database import IndexFailed
from core.index.reader import IndexReader
from core.modes import Access, is_granted
from core.patterns import compile_lazily
from core.prompts import render
from core.records import decode_json, parse_toml
from core.tools.base import Reader

TARGET: Final = "AGENTS.md"
MAP_TOKENS: Final = 2_000
INDEX_SECONDS: Final = 5.0  # limit of the wait for an index that is being built
MAX_LANGUAGES: Final = 8
MAX_NAMED: Final = 40  # targets, scripts or tools of one file
_MAX_READ: Final = 200_000  # bytes
_COMMAND: Final = compile_lazily(r"/init(?:\s+(.*))?", re.DOTALL)
_MAKE_TARGET: Final = compile_lazily(r"^([A-Za-z][\w.-]*)\s*:(?![=:])", re.MULTILINE)
_RECIPE: Final = compile_lazily(r"^@?([a-z][\w-]*)(?:\s[^:=\n]*)?:(?!=)", re.MULTILINE)
_OTHERS: Final = (
    "CLAUDE.md",
    ".claude/CLAUDE.md",
    "GEMINI.md",
    ".cursorrules",
    ".windsurfrules",
    ".clinerules",
    ".rules",
    ".github/copilot-instructions.md",
)
_OTHER_FOLDERS: Final = (".cursor/rules", ".claude/rules", ".github/instructions")
_READ_FIRST: Final = compile_lazily(
    r"(?i)(readme|contributing|development|hacking|architecture)(\.\w+)?|(go|cargo|tox|setup|noxfile|meson|build|pom|"
    r"gemfile|rakefile|composer|mix|cmakelists|dockerfile|compose|requirements[\w-]*|pre-commit-config|\.pre-commit-config"
    r")\.?\w*"
)
_WORKFLOWS: Final = (".github/workflows", ".circleci", ".ci")


class SurveyPart(NamedTuple):
    """A part of the survey. `name`: its tag."""

    name: str
    text: str


def parse_init(prompt: str) -> str | None:
    """Return the user's wishes for the file, "" = none; None: the prompt is no `/init`."""
    match = _COMMAND.fullmatch(prompt.strip())
    return (match[1] or "").strip() if match else None


async def render_init(session: Session, wish: str) -> str:
    """Render the instruction for `/init`. Raises `CommandRejected` in a mode that can't write."""
    mode = session.call_permissions.mode
    if not is_granted(mode, Access.PROPOSE, is_contained=True):
        raise CommandRejected(f"{mode} mode writes nothing.", hint="Switch with /mode agent.", code="mode_refused")
    reader = build_session_reader(session)
    await session.services.index.wait_ready(INDEX_SECONDS)
    parts = [*await _count_languages(session), *await asyncio.to_thread(_survey_files, reader)]
    repo_map = await session.services.index.build_repo_map(MAP_TOKENS, (), partial(may_show, reader))
    parts += [SurveyPart("map", repo_map)] if repo_map else []
    others = await asyncio.to_thread(_list_others, reader)
    return render("init", there_is=_exists(reader, TARGET), wish=wish, others=others, parts=parts)


async def _count_languages(session: Session) -> list[SurveyPart]:
    try:
        counts = await session.services.index.read(IndexReader.count_languages)
    except IndexFailed:
        return []
    rows = [f"{language}: {count:,}" for language, count in counts[:MAX_LANGUAGES]]
    return [SurveyPart("files_by_language", "\n".join(rows))] if rows else []


def _survey_files(reader: Reader) -> list[SurveyPart]:
    """List the commands of the project, and the files to read first."""
    names = _list_names(reader, ".")
    lines = [f"{name}: {', '.join(commands)}" for name in names if (commands := _find_commands(reader, name))]
    first = [name for name in names if _READ_FIRST.fullmatch(name)]
    first += [f"{folder}/{name}" for folder in _WORKFLOWS for name in _list_names(reader, folder)]
    parts = [SurveyPart("commands", "\n".join(lines))] if lines else []
    return [*parts, SurveyPart("files_that_tell", "\n".join(first[:MAX_NAMED]))] if first else parts


def _find_commands(reader: Reader, name: str) -> list[str]:
    """Return the targets, scripts or tools in a file of the project's root."""
    find = _FINDERS.get(name.lower())
    if find is None:
        return []
    try:
        text = reader.read_bytes(name, _MAX_READ).decode("utf-8", "replace")
        return list(dict.fromkeys(_flatten(command) for command in find(text)))[:MAX_NAMED]
    except (PathRefused, ValueError):  # the file can't be read or parsed
        return []


def _find_scripts(text: str) -> Iterator[str]:
    scripts = decode_json(text, dict[str, object]).get("scripts")
    if isinstance(scripts, dict):
        yield from (f"{name} ({command})" for name, command in scripts.items())


def _find_tools(text: str) -> Iterator[str]:
    document = parse_toml(text)
    project, tools = document.get("project"), document.get("tool")
    if isinstance(project, dict):
        yield from (
            f"{group}: {' '.join(project[group])}" for group in ("scripts", "optional-dependencies") if group in project
        )
    if isinstance(tools, dict):
        yield f"tools: {' '.join(tools)}"


_FINDERS: Final[dict[str, Callable[[str], Iterable[str]]]] = {
    "makefile": _MAKE_TARGET.findall,
    "gnumakefile": _MAKE_TARGET.findall,
    "justfile": _RECIPE.findall,
    "package.json": _find_scripts,
    "pyproject.toml": _find_tools,
}


def _list_others(reader: Reader) -> list[str]:
    """List the paths of instruction files for other tools."""
    folders = [f"{folder}/{name}" for folder in _OTHER_FOLDERS for name in _list_names(reader, folder)]
    return [*(path for path in _OTHERS if _exists(reader, path)), *folders[:MAX_NAMED]]


def _list_names(reader: Reader, directory: str) -> list[str]:
    """List the files of a directory; none if it does not exist or may not be read."""
    try:
        entries = reader.list_dir(directory) if directory == "." or reader.stat(directory) is not None else ()
    except PathRefused:
        return []
    return [entry.name for entry in entries if entry.kind == "file"]


def _exists(reader: Reader, path: str) -> bool:
    try:
        return reader.stat(path) is not None
    except PathRefused:
        return False


def _flatten(text: str) -> str:
    return " ".join(text.split())[:200]
