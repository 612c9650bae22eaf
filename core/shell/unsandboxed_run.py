"""One unsandboxed command: in the project itself, as the user, in their environment.

The user has approved exactly this command. It inherits nothing that commands have set in the session: what runs in the
box must not choose a program or a library for what runs outside. Surveys of the user's files before and after it, by
size, times and inode, find the changes, which are reported and wait for no review; ignored files are left out, and
git's own state is one entry. A command that the user typed starts in the root of the project.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from core.errors import ToolFailed
from core.git.credentials import register_command_credentials
from core.git.nested_repositories import forbid_bare_repositories
from core.patterns import compile_lazily
from core.protocol.events import EffectsRecorded
from core.providers.catalog.presets import KNOWN
from core.sandbox.host_view import FIXED
from core.sandbox.results import CommandResult
from core.sandbox.unboxed_run import run_unboxed
from core.search_paths import restore_user_paths
from core.secrets import holds_secret, list_masked_values
from core.shell.command_host import CommandHost, CommandRequest
from core.shell.execution import format_effects
from core.shell.long_output import SECRETS_HIDDEN, CommandOutput
from core.workspace.secret_files import SecretMasker, find_secret_values

MAX_ENTRIES: Final = 50_000
GIT_STATE: Final = ".git"
_GIT_FILES: Final = ("HEAD", "index", "packed-refs", "config", "logs/HEAD", "FETCH_HEAD")
Signature = tuple[int, ...]
IgnoreMatcher = Callable[[str], Callable[[str, bool], bool]]
RAN_UNSANDBOXED: Final = "Ran unsandboxed on the user's machine."
STOPPED: Final = "Stopped before it finished; changes it had already made on their machine stay."
NO_CHANGE: Final = "no project file changed"
GIT_CHANGED: Final = "git's own state changed"
UNKNOWN: Final = "its changes are unknown: the project has too many files to check"
_OWN: Final = "AGENT_TUI_"
_SECRET_NAME: Final = compile_lazily(r"(?i)token|secret|passw|credential|api_?key")
_MIN_SECRET: Final = 8


def build_unsandboxed_environment(source: Mapping[str, str]) -> dict[str, str]:
    """Return the user's environment without the keys of model APIs, for a program without an interactive terminal."""
    keys = {preset.key_variable for preset in KNOWN.values()}
    names = (name for name in source if name not in keys and not name.startswith(_OWN))
    return {name: source[name] for name in names if not holds_secret(source[name])} | FIXED


def build_requested_environment(*, is_attended: bool) -> dict[str, str]:
    """Return the environment of a command that the agent requested. Git recognizes no bare repositories in it, since
    any files can look like one, with programs to run. A command that a rule allows without a question (`is_attended`
    False) finds no program of the project either."""
    environment = build_unsandboxed_environment(restore_user_paths(os.environ) if is_attended else os.environ)
    forbid_bare_repositories(environment)
    return environment


async def run_unsandboxed(
    host: CommandHost,
    request: CommandRequest,
    directory: str,
    environment: Mapping[str, str],
    on_output: Callable[[str], None],
) -> CommandResult:
    """Run a command in `directory` of the project itself. Raises `ToolFailed` if it can't be started there.

    Cancelling ends it with all its descendants; its effects remain, and are recorded.
    """
    root = host.workspace.root
    working_directory = _find_directory(root, directory)
    match_in = host.shadow.ignore.match_in
    output = CommandOutput(host.directory, request.origin.call)

    def take(text: str) -> None:
        output.add(text)
        on_output(text)

    masker = SecretMasker(take, await _find_secrets(host, request.command, directory, environment))
    before = await asyncio.to_thread(survey_disk, root, match_in)
    limit = request.time_limit or 0
    try:
        result = await run_unboxed(
            request.command, cwd=working_directory, env=environment, time_limit=limit, on_output=masker.feed
        )
    except asyncio.CancelledError:
        host.emit(_build_effects(request, None, STOPPED))
        raise
    finally:
        masker.finish()
        output.close()
    effects = _build_effects(request, before.compare(await asyncio.to_thread(survey_disk, root, match_in)))
    host.emit(effects)
    _check_pending(host, effects)
    notes = (RAN_UNSANDBOXED, *([SECRETS_HIDDEN] if masker.masked_count else ()))
    return replace(_build_result(result, output), directory=directory, effects=format_effects(effects), notes=notes)


def _build_result(result: CommandResult, output: CommandOutput) -> CommandResult:
    """Build the result of a run with the output for the model."""
    return replace(
        result,
        output=output.render_text(),
        truncated=output.is_clipped or result.truncated,
        ended="timed_out" if result.timed_out else "exited" if result.exit_code is not None else "flooded",
        spilled_path=output.spilled_path,
    )


def _find_directory(root: Path, directory: str) -> Path:
    """Return the directory on the disk. Raises `ToolFailed` if it is missing, or outside of the project."""
    path = (root / directory).resolve()
    if path.is_dir() and path.is_relative_to(root.resolve()):
        return path
    raise ToolFailed(
        f"{directory!r} is not a directory of the project on disk, so nothing was run there.",
        hint="Pending changes are not on disk yet. Change to a directory that is, or accept them first.",
    )


async def _find_secrets(
    host: CommandHost, command: str, directory: str, environment: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the values to mask in the output: those of secret files, and of variables with a secret's name."""
    withheld_paths = await asyncio.to_thread(host.withheld)
    await asyncio.to_thread(register_command_credentials, host.workspace.root, directory, command)
    values = await asyncio.to_thread(
        find_secret_values, host.workspace.root, (*withheld_paths.covered, *withheld_paths.masked)
    )
    variable_secrets = {
        value for name, value in environment.items() if _SECRET_NAME.search(name) and len(value) >= _MIN_SECRET
    }
    return tuple(sorted({*values, *variable_secrets, *list_masked_values()}, key=lambda value: (-len(value), value)))


def _build_effects(request: CommandRequest, changes: DiskChanges | None, note: str = "") -> EffectsRecorded:
    """Build the record of a command's changes on the disk. `changes` None: they are unknown."""
    disk_changes = changes or DiskChanges()
    notice = note or (UNKNOWN if changes is None else NO_CHANGE if changes == DiskChanges() else "")
    return EffectsRecorded(
        call=request.origin.call,
        command=request.command,
        created=disk_changes.created,
        edited=disk_changes.edited,
        deleted=disk_changes.deleted,
        notes=tuple(filter(None, (GIT_CHANGED if disk_changes.has_git_changed else "", notice))),
        on_machine=True,
    )


def _check_pending(host: CommandHost, effects: EffectsRecorded) -> None:
    """Recheck pending changes of files that the command changed on the disk."""
    for path in {*effects.created, *effects.edited, *effects.deleted} & host.state.changes.keys():
        host.shadow.check_disk(path)


class DiskChanges(Struct, frozen=True, kw_only=True):
    """Workspace-relative paths. `has_git_changed`: commits, branches, the index or git's configuration."""

    created: tuple[str, ...] = ()
    edited: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    has_git_changed: bool = False


class DiskSurvey(Struct, frozen=True):
    """The signatures of a project's files by their paths; `is_whole` False: there were too many files."""

    files: dict[str, Signature]
    is_whole: bool

    def compare(self, after: DiskSurvey) -> DiskChanges | None:
        """Return the changes in a later survey; None if one of them is not whole."""
        if not (self.is_whole and after.is_whole):
            return None
        before, now = self.files, after.files
        edited_paths = [path for path, signature in now.items() if path in before and before[path] != signature]
        return DiskChanges(
            created=tuple(sorted(now.keys() - before.keys() - {GIT_STATE})),
            edited=tuple(sorted(set(edited_paths) - {GIT_STATE})),
            deleted=tuple(sorted(before.keys() - now.keys() - {GIT_STATE})),
            has_git_changed=before.get(GIT_STATE) != now.get(GIT_STATE),
        )


def survey_disk(root: Path, match_in: IgnoreMatcher) -> DiskSurvey:
    """Survey the project below `root`; slow for a large one. `match_in(directory)` returns a function that tests which
    names are ignored there.

    Unreadable files count as absent.
    """
    signatures: dict[str, Signature] = {}
    waiting, entry_count = ["."], 0
    while waiting:
        directory = waiting.pop()
        is_ignored = match_in(directory)
        for entry in _list_entries(root / directory):
            entry_count += 1
            if entry_count > MAX_ENTRIES:
                return DiskSurvey(signatures, is_whole=False)
            path = entry.name if directory == "." else f"{directory}/{entry.name}"
            is_directory = entry.is_dir(follow_symlinks=False)
            if is_ignored(entry.name, is_directory):
                continue
            if is_directory:
                waiting.append(path)
            elif (signature := _read_signature(root / path)) is not None:
                signatures[path] = signature
    signatures[GIT_STATE] = _survey_git(root / ".git")
    return DiskSurvey(signatures, is_whole=True)


def _list_entries(directory: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return list(entries)
    except OSError:
        return []


def _read_signature(path: Path) -> Signature | None:
    try:
        stats = path.lstat()
    except OSError:
        return None
    return (stats.st_mode, stats.st_size, stats.st_mtime_ns, stats.st_ctime_ns, stats.st_ino)


def _survey_git(directory: Path) -> Signature:
    """Return one signature of git's state: of its files, and of everything below `refs`."""
    total: list[int] = []
    for name in _GIT_FILES:
        total += _read_signature(directory / name) or (0,)
    waiting = [directory / "refs"]
    while waiting and len(total) < MAX_ENTRIES:
        for entry in sorted(_list_entries(waiting.pop()), key=lambda child: child.name):
            if entry.is_dir(follow_symlinks=False):
                waiting.append(Path(entry.path))
            else:
                total += _read_signature(Path(entry.path)) or (0,)
    return tuple(total)
