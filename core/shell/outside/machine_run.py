"""One command that the user let out of the box: in the project itself, as the user, in their environment.

The gate has the user's yes to exactly this command. It gets nothing that commands have set in the session: what runs in
the box must not choose a program or a library for what runs outside. What it changed on the disk is found by looking
before and after, and said; it waits for no review. What the user typed themselves begins in the project's top.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from core.errors import ToolFailed
from core.git.checks.nested_repositories import allow_no_bare_repository
from core.git.credentials import register_command_credentials
from core.protocol.events import EffectsRecorded
from core.providers.catalog.presets import KNOWN
from core.sandbox.environment import FIXED
from core.sandbox.results import CommandResult
from core.sandbox.unboxed_run import run_unboxed
from core.search_paths import restore_user_paths
from core.secrets import holds_secret, list_masked_values
from core.shell.command_host import CommandHost, CommandRequest
from core.shell.command_output import CommandOutput
from core.shell.execution import SECRETS_HIDDEN, format_effects
from core.shell.outside.disk_survey import DiskChanges, survey_disk
from core.workspace.secret_values import SecretMasker, find_secret_values

ON_MACHINE: Final = "Ran on the user's machine, outside of the box."
STOPPED: Final = "Stopped before it ended; what it did on their machine until then stays."
NO_CHANGE: Final = "no file of the project changed"
GIT_CHANGED: Final = "git's own state changed"
UNKNOWN: Final = "what it changed is not known: the project has too many files to look"
_OWN: Final = "AGENT_TUI_"
_SECRET_NAME: Final = re.compile(r"(?i)token|secret|passw|credential|api_?key")
_MIN_SECRET: Final = 8


def build_machine_environment(source: Mapping[str, str]) -> dict[str, str]:
    """Return the user's environment without the keys of model APIs, for a program at whose terminal nobody sits."""
    keys = {preset.key_variable for preset in KNOWN.values()}
    names = (name for name in source if name not in keys and not name.startswith(_OWN))
    return {name: source[name] for name in names if not holds_secret(source[name])} | FIXED


def build_requested_environment(*, is_attended: bool) -> dict[str, str]:
    """Return the environment of a command that the agent asked for. Git takes no directory for a bare repository there:
    any files can look like one, with programs to run. A command that a rule lets out, which nobody looks at
    (`is_attended` False), finds no program of the project either."""
    environment = build_machine_environment(restore_user_paths(os.environ) if is_attended else os.environ)
    allow_no_bare_repository(environment)
    return environment


async def run_on_machine(
    host: CommandHost,
    request: CommandRequest,
    directory: str,
    environment: Mapping[str, str],
    on_output: Callable[[str], None],
) -> CommandResult:
    """Run a command in `directory` of the project itself. Raises `ToolFailed` if it can't be started there.

    Cancelling ends it with all that it started; what it did stays, and is recorded.
    """
    root = host.workspace.root
    working_directory = _find_directory(root, directory)
    match_in = host.shadow.ignore.match_in
    output = CommandOutput(host.directory, request.origin.call)

    def take(text: str) -> None:
        output.add(text)
        on_output(text)

    veil = SecretMasker(take, await _find_secrets(host, request.command, directory, environment))
    before = await asyncio.to_thread(survey_disk, root, match_in)
    limit = request.time_limit or 0
    try:
        result = await run_unboxed(
            request.command, cwd=working_directory, env=environment, time_limit=limit, on_output=veil.feed
        )
    except asyncio.CancelledError:
        host.emit(_build_effects(request, None, STOPPED))
        raise
    finally:
        veil.finish()
        output.close()
    effects = _build_effects(request, before.compare(await asyncio.to_thread(survey_disk, root, match_in)))
    host.emit(effects)
    _check_pending(host, effects)
    notes = (ON_MACHINE, *([SECRETS_HIDDEN] if veil.masked_count else ()))
    return replace(_build_result(result, output), directory=directory, effects=format_effects(effects), notes=notes)


def _build_result(result: CommandResult, output: CommandOutput) -> CommandResult:
    """Build the result of a run with the output as the model is given it."""
    return replace(
        result,
        output=output.render_text(),
        truncated=output.is_clipped or result.truncated,
        ended="timed_out" if result.timed_out else "exited" if result.exit_code is not None else "flooded",
        spilled_path=output.spilled_path,
    )


def _find_directory(root: Path, directory: str) -> Path:
    """Return the directory on the disk. Raises `ToolFailed` if it is not there, or leads out of the project."""
    path = (root / directory).resolve()
    if path.is_dir() and path.is_relative_to(root.resolve()):
        return path
    raise ToolFailed(
        f"{directory!r} is no directory of the project on the disk, so nothing was run there.",
        hint="What waits for the review is not on the disk yet. Change to a directory that is, or accept it first.",
    )


async def _find_secrets(
    host: CommandHost, command: str, directory: str, environment: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the values to be masked in the output: those of secret files, and of variables with a secret's name."""
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
    """Build the record of what a command did on the disk. `changes` None: that is not known."""
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
    """Check what waits for the review against the files that the command changed below it."""
    for path in {*effects.created, *effects.edited, *effects.deleted} & host.state.changes.keys():
        host.shadow.check_disk(path)
