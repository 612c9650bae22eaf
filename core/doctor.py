"""`agent-tui doctor`: what this installation has and what it lacks. Names of keys only, never a key."""

from __future__ import annotations

import asyncio
import os
import platform
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from core import __version__
from core.cli import Options
from core.config import FILE_NAME, PROJECT_FILE, Settings, config_dir, load_with_notices, state_dir
from core.errors import AgentTuiError
from core.exits import ExitCode
from core.protocol.queries import Models
from core.tools.ripgrep import program
from core.workspace import Workspace

_SHOWN = ("textual", "openai", "anthropic", "msgspec", "watchfiles")


def report(options: Options) -> int:
    """Print the report. `ExitCode.FAILED` if something would keep a session from working."""
    problems: list[str] = []
    for label, text in _lines(options.directory, problems):
        sys.stdout.write(f"{label:<12}{text}\n")
    for problem in problems:
        sys.stdout.write(f"! {problem}\n")
    return ExitCode.FAILED if problems else ExitCode.DONE


def _lines(directory: Path, problems: list[str]) -> Iterator[tuple[str, str]]:
    yield "agent-tui", f"{__version__}, Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    yield "packages", ", ".join(f"{name} {_version(name)}" for name in _SHOWN)
    yield "ripgrep", _tried(program, problems)
    yield "workspace", _tried(lambda: str(Workspace(directory).root), problems)
    yield "state", _state(problems)
    settings = _configured(directory, problems)
    yield "config", f"{config_dir() / FILE_NAME}{'' if (config_dir() / FILE_NAME).is_file() else ' (none)'}"
    if (directory / PROJECT_FILE).is_file():
        yield "project", PROJECT_FILE.as_posix()
    yield "commands", "not contained: each one runs in your project itself, after you allow it"
    yield from _models(settings)


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "missing"


def _tried(find: object, problems: list[str]) -> str:
    assert callable(find)
    try:
        return str(find())
    except AgentTuiError as problem:
        problems.append(problem.explained())
        return "unusable"


def _state(problems: list[str]) -> str:
    """Whether sessions can be kept; nothing is made to find out."""
    directory = state_dir()
    nearest = next(path for path in (directory, *directory.parents) if path.exists())
    if not os.access(nearest, os.W_OK | os.X_OK):
        problems.append(f"The state directory {directory} can't be written. Set AGENT_TUI_STATE_DIR to one that can.")
    return str(directory)


def _configured(directory: Path, problems: list[str]) -> Settings:
    try:
        loaded = load_with_notices(directory)
    except AgentTuiError as problem:
        problems.append(problem.explained())
        return Settings()
    problems += loaded.notices
    return loaded.settings


def _models(settings: Settings) -> Iterator[tuple[str, str]]:
    from core.providers.registry import discover

    found: Models = asyncio.run(discover(settings))
    for provider in found.providers:
        count = sum(model.id.startswith(f"{provider.id}/") for model in found.models)
        known = f"key: {provider.key}" if provider.key else ("local server" if provider.local else "no key")
        where = f", {provider.base_url}" if provider.base_url else ""
        state = provider.problem or f"{count} models"
        yield "provider", f"{provider.id}: {known}{where}: {state}"
    yield "model", found.default or "none: set a key, start a local model server, or try agent-tui --demo"
