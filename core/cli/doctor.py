"""`agent-tui doctor`: report what this installation has and what it lacks. It names keys but never prints one, and
creates nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from core import __version__
from core.arguments import Arguments, Front
from core.config.loading import PROJECT_FILE, load_with_notices
from core.config.settings import FILE_NAME, LoadedSettings, Settings
from core.errors import AgentTuiError
from core.exits import ExitCode
from core.filesystem.name_spelling import resolve_spelled
from core.git.repository import GitFailed, find_confirmed_repository
from core.installation import describe_update
from core.permissions.trust import TrustStore
from core.protocol.models import ProviderStatus
from core.protocol.queries import ModelsAnswer
from core.providers.connection.keys import describe_storage
from core.providers.hosted_agents import KNOWN_AGENTS, find_agent
from core.sandbox.box import Tier
from core.search_paths import APPLE_STUB, find_git, list_ignored
from core.secrets import redact
from core.sessions.store import SessionStore
from core.text.display_names import to_one_line
from core.tools.builtin.reading.ripgrep import find_program
from core.user_dirs import get_config_dir, get_state_dir
from core.workspace import Workspace

if TYPE_CHECKING:
    from core.sandbox.tiers.selection import TierReport

HEARD = "can only make your settings stricter"
UNHEARD = "not read: you have not trusted this project"

_SHOWN = ("textual", "openai", "anthropic", "msgspec", "watchfiles")
_WIDTH = 12
_HELD = "sandboxed, file changes go to review"
_MACOS_REPORT = (
    "M1 was written from published facts and not yet run by us on a Mac. Please report these lines to the project, "
    "whatever they say."
)
_MEANINGS = {
    Tier.NAMESPACES: f"{_HELD} (namespaces and an overlay)",
    Tier.BWRAP_OVERLAY: f"{_HELD} (bubblewrap and its overlay)",
    Tier.BWRAP_MOUNTED: f"{_HELD} (an overlay and bubblewrap)",
    Tier.BWRAP_COPY: f"{_HELD} (bubblewrap on a copy of the project)",
    Tier.LANDLOCK: f"{_HELD} (Landlock on a copy of the project); you are asked before each command",
    Tier.SEATBELT: f"{_HELD} (Seatbelt on a clone of the project)",
    Tier.CONTAINER: "this container is the sandbox: commands run on a copy of the project, with no walls around them",
    Tier.IN_PLACE: "in place: commands run in your project itself, without asking",
    Tier.NONE: "not sandboxed: each command runs in your project itself, after you allow it",
}
_LINUX_TIERS = frozenset({Tier.NAMESPACES, Tier.BWRAP_OVERLAY, Tier.BWRAP_MOUNTED, Tier.BWRAP_COPY, Tier.LANDLOCK})


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorArguments(Arguments):
    """`probe`: try every way to contain commands again."""

    front: ClassVar[Front] = "doctor"
    probe: bool = False


def build_arguments(directory: Path, args: argparse.Namespace) -> DoctorArguments:
    """Return the arguments of a main command line whose first word was `doctor`."""
    return DoctorArguments(directory=directory, probe=args.probe)


def run(arguments: DoctorArguments, *, clipboard: Callable[[], str] | None = None) -> int:
    """Print the report. Returns `ExitCode.FAILED` if a session could not work. `clipboard`: describes how the screen
    reads pictures."""
    check = _Check(arguments.directory, probe=arguments.probe)
    check.clipboard = clipboard
    sys.stdout.writelines(f"{line}\n" for line in check.format())
    return ExitCode.FAILED if check.problems else ExitCode.DONE


def describe_installation(arguments: DoctorArguments) -> Iterator[str]:
    """Return the lines of the report."""
    return _Check(arguments.directory, probe=arguments.probe).format()


class _Check:
    """Collects the findings; `problems` keep a session from working, `notes` do not."""

    def __init__(self, directory: Path, *, probe: bool) -> None:
        self._directory = directory
        self._probe = probe
        self.clipboard: Callable[[], str] | None = None
        self.problems: list[str] = []
        self.notes: list[str] = []

    def format(self) -> Iterator[str]:
        """Format a line for every finding; the problems come last."""
        for label, text in self.lines():
            yield f"{label:<{_WIDTH}}{to_one_line(text)}"
        yield from (f"{'note':<{_WIDTH}}{to_one_line(note)}" for note in self.notes)
        each_line = (line for problem in self.problems for line in problem.split("\n"))
        yield from (f"{'PROBLEM':<{_WIDTH}}{to_one_line(line)}" for line in each_line)

    def lines(self) -> Iterator[tuple[str, str]]:
        python = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
        yield "agent-tui", f"{__version__}, {python}"
        yield "update", describe_update()
        yield "packages", ", ".join(f"{name} {_find_version(name)}" for name in _SHOWN)
        yield "ripgrep", self._report_trials(find_program)
        yield "git", find_git() or _describe_missing_git()
        if ignored_names := list_ignored():
            yield "not used", f"{', '.join(ignored_names)}: they point into the project"
        if self.clipboard is not None:
            yield "clipboard", self.clipboard()
        yield "workspace", self._report_trials(self._describe_workspace)
        yield "state", self._report_trials(self._describe_state_directory)
        settings = self._load_settings()
        config_path = get_config_dir() / FILE_NAME
        yield "config", f"{config_path}{'' if os.access(config_path, os.F_OK) else ' (none: defaults apply)'}"
        if (self._directory / PROJECT_FILE).is_file():
            is_trusted = TrustStore(resolve_spelled(self._directory)).has_trust()
            yield "project", f"{PROJECT_FILE.as_posix()} ({HEARD if is_trusted else UNHEARD})"
        yield from _label_rows(
            "commands", _describe_containment(asyncio.run(_try_tiers(probe=self._probe)), is_probed=self._probe)
        )
        yield from _label_rows("LSP servers", _describe_servers(self._directory, settings))
        yield "search", _describe_search(settings)
        yield "browser", _describe_browser(settings)
        yield "hooks", self._report_trials(self._count_hooks)
        yield from _label_rows("agents", _describe_agents(settings))
        answer = asyncio.run(_load_models(settings))
        yield from _format_models(answer)
        yield "model", _describe_choice(answer)
        yield "pasted keys", describe_storage()

    def _report_trials(self, find: Callable[[], object]) -> str:
        try:
            return str(find())
        except AgentTuiError as problem:
            self.problems.append(problem.format_with_hint())
            return "unusable, see below"

    def _describe_workspace(self) -> str:
        root = Workspace(self._directory).root
        if not os.access(root, os.W_OK | os.X_OK):
            self.notes.append(f"{root} is not writable: you can review hunks, but not accept them.")
        return f"{root}{_describe_repository(root)}"

    def _describe_state_directory(self) -> str:
        directory = get_state_dir()
        nearest = next(path for path in (directory, *directory.parents) if os.access(path, os.F_OK))
        if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
            self.problems.append(
                f"The state directory {directory} is not writable. Set AGENT_TUI_STATE_DIR to one that is."
            )
        if nearest != directory:
            return f"{directory} (will be created)"
        count = len(SessionStore(self._directory).list_directories())
        return f"{directory} ({count} {'session' if count == 1 else 'sessions'} in this workspace)"

    def _count_hooks(self) -> str:
        from core.hooks.hook_files import load_hooks

        workspace = Workspace(self._directory)
        trust = TrustStore(workspace.root)
        table = load_hooks(workspace, trust.load_files().is_trusted if trust.has_trust() else None)
        self.notes += [f"{problem.source}: {problem.message}" for problem in table.problems]
        suffix = f", {len(table.held)} more of the project need your trust" if table.held else ""
        return f"{len(table.hooks) or 'none'}{suffix}"

    def _load_settings(self) -> Settings:
        loaded_settings = LoadedSettings(settings=Settings())
        try:
            trust = TrustStore(resolve_spelled(self._directory))
            is_trusted = trust.has_trust()
            loaded_settings = load_with_notices(self._directory if is_trusted else None, trust.load_files().is_trusted)
        except AgentTuiError as problem:
            self.problems.append(problem.format_with_hint())
        self.notes += loaded_settings.notices
        return loaded_settings.settings


async def _try_tiers(*, probe: bool) -> TierReport:
    """Return the ways to contain commands here; with `probe` every tier is tried again, and the result is saved."""
    from core.sandbox.tiers.selection import find_tier, load_cached_report

    state = get_state_dir()
    if probe and await asyncio.to_thread(os.path.isdir, state):
        return await find_tier(state, try_all=True)
    cached_report = None if probe else load_cached_report(state)
    if cached_report is not None:
        return cached_report
    with tempfile.TemporaryDirectory() as directory:
        return await find_tier(Path(directory), try_all=probe)


def _describe_containment(report: TierReport, *, is_probed: bool) -> Iterator[str]:
    """Describe the tier in force, then every tier that was tried."""
    yield f"{report.tier.value}: {_MEANINGS[report.tier]}"
    reasons = report.reasons
    if sys.platform == "darwin":
        reasons = tuple(trial for trial in reasons if trial.tier not in _LINUX_TIERS)
        yield "T1, T2 and T3 are made of parts of Linux"
    for trial in reasons:
        if not trial.ok:
            error = f" [{trial.errno}]" if trial.errno not in trial.reason else ""
            yield " ".join(filter(None, (f"not {trial.tier.value}: {trial.reason.rstrip('.')}{error}.", trial.cure)))
        elif is_probed:
            yield f"{trial.tier.value} blocked all attempts: {', '.join(item.name for item in trial.items)}"
        if is_probed and trial.tier is Tier.SEATBELT:
            yield from (f"M1 {item.name}: {'held' if item.held else item.found}" for item in trial.items)
            yield _MACOS_REPORT


def _describe_servers(directory: Path, settings: Settings) -> Iterator[str]:
    """Describe the installed language servers with their languages. They are only looked up on PATH."""
    from core.lsp.server_table import ServerFinder, configure_servers

    def read(path: str) -> bytes | None:
        try:
            return (directory / path).read_bytes()
        except OSError:
            return None

    finder = ServerFinder(
        root=str(resolve_spelled(directory)),
        specs=configure_servers(settings.lsp),
        read=read,
        exists=lambda path: (directory / path).exists(),
        search_path=os.environ.get("PATH", ""),
    )
    servers = {spec.name: (spec, program) for spec in finder.specs if (program := finder.find_program(spec))}
    for name, (spec, program) in servers.items():
        yield f"{name} for {', '.join(spec.languages)}: {program}"
    if not servers:
        yield "none found: only tests and linters report what an edit breaks (ty, gopls, rust-analyzer, … on PATH)"


def _describe_search(settings: Settings) -> str:
    """Describe the web search engine, without a request to it."""
    search = settings.web.search
    if not settings.web.enabled:
        return "none: the web is turned off (web.enabled)"
    if reason := search.explain_absence():
        return f"none: {reason} ([web.search] in {FILE_NAME})"
    return " ".join(filter(None, (search.provider, search.base_url and f"at {redact(search.base_url)}")))


def _describe_browser(settings: Settings) -> str:
    """Describe the two programs of the browser subagent. They are only looked up."""
    from core.mcp.browser import find_programs

    try:
        return ", ".join(find_programs(settings.browser))
    except AgentTuiError as problem:
        return problem.format_with_hint()


def _describe_agents(settings: Settings) -> Iterator[str]:
    """Describe the agents of other vendors that could answer here (`--agent NAME`). They are only looked up."""
    names = dict.fromkeys((*KNOWN_AGENTS, *settings.agent_servers))
    missing = []
    for name in names:
        try:
            command = find_agent(name, settings).find_command()
        except AgentTuiError as problem:
            yield f"{name}: {problem.format_with_hint()}"
            continue
        if command is None:
            missing.append(name)
        else:
            yield f"{name}: {' '.join(command)}"
    if missing:
        yield f"not installed: {', '.join(missing)} (see agent-tui help agents)"


def _label_rows(label: str, texts: Iterable[str]) -> Iterator[tuple[str, str]]:
    for number, text in enumerate(texts):
        yield "" if number else label, text


def _find_version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "missing"


async def _load_models(settings: Settings) -> ModelsAnswer:
    from core.providers.discovery import discover_models

    return await discover_models(settings)


def _format_models(answer: ModelsAnswer) -> Iterator[tuple[str, str]]:
    rows = [
        (
            status.id,
            _describe_state(status, answer),
            status.key or ("-" if status.local else "no key"),
            status.base_url,
        )
        for status in answer.providers
        if status.key or status.local or status.problem or status.id in ("anthropic", "openai")
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    yield from _label_rows("providers", (_format_cells(row, widths) for row in rows))
    visible_ids = {row[0] for row in rows}
    if others := [
        f"{provider.id} ({_describe_missing_key(provider.id)})"
        for provider in answer.providers
        if provider.id not in visible_ids
    ]:
        yield "", f"not set up: {', '.join(others)}"


def _format_cells(row: tuple[str, ...], widths: list[int]) -> str:
    return "  ".join((*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1])).rstrip()


def _describe_repository(root: Path) -> str:
    try:
        repository = find_confirmed_repository(root)
    except (GitFailed, OSError) as problem:
        return f" (git does not work: {problem})"
    if repository is None:
        has_git_file = os.path.lexists(root / ".git")
        return " (.git is not a repository that knows this directory)" if has_git_file else " (no git repository)"
    return "" if repository.root == root else f" (part of the repository {repository.root})"


def _describe_choice(answer: ModelsAnswer) -> str:
    if answer.default:
        return f"{answer.default} ({answer.reason})"
    if answer.models:
        return "none yet: choose one of those found with /model, or name it with --model"
    return "none: set a key, start a local model server, or try agent-tui --demo"


def _describe_state(status: ProviderStatus, answer: ModelsAnswer) -> str:
    from core.providers.catalog.listing import NOT_LISTENING

    count = sum(model.id.startswith(f"{status.id}/") for model in answer.models)
    if status.problem == NOT_LISTENING and status.local:
        return "not running"
    if status.problem:
        return status.problem.rstrip(".")
    if count:
        return f"{count} {'model' if count == 1 else 'models'}"
    return "no models" if status.local or status.key else _describe_missing_key(status.id)


def _describe_missing_git() -> str:
    effect = "the model is not told which files changed"
    if shutil.which("git") is None:
        return f"none: {effect}"
    return f"none: {effect}; {APPLE_STUB} only offers to install it (xcode-select --install)"


def _describe_missing_key(provider: str) -> str:
    from core.providers.catalog.presets import KNOWN

    preset = KNOWN.get(provider)
    return f"set {preset.key_variable}" if preset is not None and preset.key_variable else "not configured"
