"""Find all problems in the configuration of a project and its user at once.

A problem that makes a settings file unusable is an error. The others are warnings about entries without the intended
effect: a model of an unknown provider, an unknown tool, an unused MCP server, hook or skill.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

from core.config.loading import PROJECT_FILE, load_with_notices, parse_table, read_settings_bytes
from core.config.problems import find_line, find_problems
from core.config.schema import KeyPath, drop_values, find_misfits
from core.config.settings import FILE_NAME, SHORT_KEYS, InterfaceSettings, Settings
from core.errors import AgentTuiError, ConfigError
from core.modes import Mode
from core.permissions.trusted_files import TrustCheck
from core.protocol.messages import ModelJob
from core.protocol.queries import SettingsProblem
from core.records import convert
from core.tools.toolset import Toolset
from core.user_dirs import get_config_dir
from core.workspace import Workspace

LintMessage = tuple[KeyPath, str, str]  # key, problem, hint
InterfaceCheck = Callable[[InterfaceSettings], Iterable[LintMessage]]


def check_configuration(
    workspace: Workspace, is_trusted: TrustCheck | None, check_interface: InterfaceCheck
) -> list[SettingsProblem]:
    """Return all problems. `is_trusted` None: nothing of the project is read. `check_interface`: the client's check of
    its own part of the settings."""
    user_path = get_config_dir() / FILE_NAME
    try:
        settings_problems = check_text(user_path, read_settings_bytes(user_path) or b"", check_interface)
        settings_problems += _check_project_file(workspace.root, is_trusted) if is_trusted is not None else []
    except ConfigError as problem:
        settings_problems = [_fail(problem)]
    return settings_problems + [_warn(text) for text in _check_extensions(workspace, is_trusted)]


def check_text(path: Path, data: bytes, check_interface: InterfaceCheck) -> list[SettingsProblem]:
    """Return the problems of the user's settings file with this content."""
    try:
        text, table = parse_table(path, data)
    except ConfigError as problem:
        return [_fail(problem)]
    settings = _convert_valid(table)
    problems = [_fail(config_error) for config_error in find_problems(path, text, table)]
    problems += lint_settings(settings, text, check_interface(settings.ui))
    return problems + [_build_warning(text, key, *details) for key, *details in _check_machine(settings)]


def lint_settings(
    settings: Settings, text: str, interface_messages: Iterable[LintMessage] = ()
) -> list[SettingsProblem]:
    """Return warnings about valid settings that name unknown things. `text`: the user's file, for line numbers;
    `interface_messages`: warnings about the client's part."""
    doubts = (*_check_models(settings), *_check_providers(settings), *interface_messages)
    unknown = Toolset().explain_unknown(settings.list_tool_keys())
    return [_build_warning(text, *doubt) for doubt in doubts] + [_warn(message) for message in unknown]


def lint_interface(check_interface: InterfaceCheck) -> list[SettingsProblem]:
    """Return the client's warnings about its part of the user's settings, even if other parts are invalid."""
    try:
        text, table = parse_table(get_config_dir() / FILE_NAME, read_user_text().encode())
    except ConfigError:  # reported when the settings are loaded
        return []
    settings = _convert_valid(table)
    return [_build_warning(text, *doubt) for doubt in check_interface(settings.ui)]


def _convert_valid(table: Mapping[str, Any]) -> Settings:
    """Return the settings without the invalid values."""
    return convert(drop_values(table, {misfit.path for misfit in find_misfits(table)}), Settings)


def read_user_text() -> str:
    """Return the user's settings file, "" if there is none."""
    return (read_settings_bytes(get_config_dir() / FILE_NAME) or b"").decode("utf-8", "replace")


def _build_warning(text: str, key: KeyPath, reason: str, hint: str) -> SettingsProblem:
    line = find_line(text, key)
    location = f"{get_config_dir() / FILE_NAME}, line {line}: " if line else ""
    return _warn(f"{location}`{'.'.join(key)}`: {reason.rstrip('.')}.", hint)


def _check_project_file(root: Path, is_trusted: TrustCheck) -> list[SettingsProblem]:
    """Return the errors of the project's file, or warnings about settings that it may not set."""
    data = read_settings_bytes(root / PROJECT_FILE)
    if data is None:
        return []
    if not is_trusted(PROJECT_FILE.as_posix(), data):
        message = f"{PROJECT_FILE.as_posix()} is not loaded: it has changed since you trusted it."
        return [_warn(message, "Open the project in agent-tui, which asks about it.")]
    if problems := list(find_problems(root / PROJECT_FILE, *parse_table(root / PROJECT_FILE, data))):
        return [_fail(problem) for problem in problems]
    try:
        return [_warn(notice) for notice in load_with_notices(root, is_trusted).notices]
    except ConfigError:  # an error of the user's file, which is in the list already
        return []


def _fail(problem: AgentTuiError) -> SettingsProblem:
    return SettingsProblem(level="error", message=problem.message, hint=problem.hint)


def _warn(message: str, hint: str = "") -> SettingsProblem:
    return SettingsProblem(level="warning", message=message, hint=hint)


def _check_models(settings: Settings) -> Iterator[LintMessage]:
    """Check that every model in the settings has a known provider."""
    from core.index.minilm import MINILM
    from core.providers.registry import split_model_id

    references: list[tuple[KeyPath, str]] = [((key,), getattr(settings, key)) for key in SHORT_KEYS.values()]
    for job in get_args(ModelJob):
        route = getattr(settings.routes, job)
        references.append((("routes", job, "model"), route.model))
        references += [(("routes", job, "fallback"), fallback_model) for fallback_model in route.fallback]
    references += [(("modes", mode.value, "model"), settings.get_mode_settings(mode).model) for mode in Mode]
    references += [(("models", model), model) for model in settings.models]
    for key, model in references:
        is_local = model == MINILM and key == ("routes", "embed", "model")
        try:
            if model and not is_local:
                split_model_id(model, settings)
        except ConfigError as problem:
            yield key, problem.message, problem.hint


def _check_providers(settings: Settings) -> Iterator[LintMessage]:
    from core.providers.hosted_agents import find_agent
    from core.providers.registry import find_base_url

    for name in settings.providers:
        try:
            find_base_url(name, settings)
        except ConfigError as problem:
            yield ("providers", name, "base_url"), problem.message, problem.hint
    for name in settings.agent_servers:
        try:
            find_agent(name, settings)
        except ConfigError as problem:
            yield ("agent_servers", name), problem.message, problem.hint
    if settings.web.search.provider and (reason := settings.web.search.explain_absence()):
        yield ("web", "search", "provider"), reason, ""


def _check_machine(settings: Settings) -> Iterator[LintMessage]:
    """Check that variables, programs and files in the settings exist on this machine."""
    for name, provider in settings.providers.items():
        if (variable := provider.api_key_env) and not os.environ.get(variable):
            yield ("providers", name, "api_key_env"), f"{variable} is not set in this shell", ""
    for name, server in settings.lsp.items():
        if server.enabled and server.command and shutil.which(server.command[0]) is None:
            hint = "Install it, or give its path."
            yield ("lsp", name, "command"), f"there is no program {server.command[0]!r}", hint
    dialect = settings.dialects.command and str(get_config_dir() / settings.dialects.command)
    for key, path in ((("browser", "executable"), settings.browser.executable), (("dialects", "command"), dialect)):
        if path and not Path(path).expanduser().is_file():
            yield key, f"there is no file {path}", ""


def _check_extensions(workspace: Workspace, is_trusted: TrustCheck | None) -> Iterator[str]:
    """Check the configuration in other files: MCP servers, hooks, rules, skills, commands, subagents, plug-ins."""
    from core.config.rules.loading import load_rule_files
    from core.extensions.agents import load_agents
    from core.extensions.commands import load_commands
    from core.extensions.plugins import find_extension_folders
    from core.extensions.skills import load_skills
    from core.hooks.hook_files import load_hooks
    from core.mcp.config_files import load_servers
    from core.mcp.server_rows import describe_problem

    yield from map(describe_problem, load_servers(workspace, is_trusted).problems)
    yield from (
        f"{hook_problem.source}: {hook_problem.message}" for hook_problem in load_hooks(workspace, is_trusted).problems
    )
    rules = load_rule_files(workspace, is_trusted)
    yield from (f"{rule.path}: {rule.note}" for rule in rules.rules if rule.note)
    yield from (f"{loaded_rule.path}: {loaded_rule.reason}" for loaded_rule in rules.problems)
    places = find_extension_folders(workspace, is_trusted)
    agents, skills, commands = load_agents(places.folders), load_skills(places.folders), load_commands(places.folders)
    for path, problems in (
        *((skill.path, skill.problems) for skill in skills.skills),
        *((command.path, command.problems) for command in commands.commands),
        *((agent.source, (*agent.problems, *agent.refusals)) for agent in agents.agents),
        *((plugin.path, plugin.problems) for plugin in places.plugins.plugins),
    ):
        yield from (f"{path}: {problem}" for problem in problems)
    for skipped_files in (skills.skipped, commands.skipped, agents.skipped, places.plugins.skipped):
        yield from (f"{skipped_file.path} is not loaded: {skipped_file.reason}" for skipped_file in skipped_files)
