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

from msgspec.structs import replace

from core.errors import ToolFailed
from core.git.credentials import register_command_credentials
from core.git.nested_repositories import forbid_bare_repositories
from core.patterns import compile_lazily
from core.protocol.events import EffectsRecorded
from core.sandbox.results import CommandResult
from core.sandbox.unboxed_run import run_unboxed
from core.search_paths import restore_user_paths
from core.secrets import list_masked_values
from core.shell.command_host import CommandHost, CommandRequest, build_unsandboxed_environment
from core.shell.disk_survey import build_disk_effects, survey_disk
from core.shell.execution import format_effects
from core.shell.long_output import SECRETS_HIDDEN, CommandOutput
from core.shell.masked_output import MaskedOutput
from core.workspace.secret_files import find_secret_values

RAN_UNSANDBOXED: Final = "Ran unsandboxed on the user's machine."
STOPPED: Final = "Stopped before it finished; changes it had already made on their machine stay."
_SECRET_NAME: Final = compile_lazily(r"(?i)token|secret|passw|credential|api_?key")
_MIN_SECRET: Final = 8


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

    masked = MaskedOutput(output, on_output, await _find_secrets(host, request.command, directory, environment))
    before = await asyncio.to_thread(survey_disk, root, match_in)
    limit = request.time_limit or 0
    try:
        result = await run_unboxed(
            request.command, cwd=working_directory, env=environment, time_limit=limit, on_output=masked.feed
        )
    except asyncio.CancelledError:
        host.emit(build_disk_effects(request.origin.call, request.command, None, STOPPED))
        raise
    finally:
        masked.finish()
        output.close()
    changes = before.compare(await asyncio.to_thread(survey_disk, root, match_in))
    effects = build_disk_effects(request.origin.call, request.command, changes)
    host.emit(effects)
    _check_pending(host, effects)
    notes = (RAN_UNSANDBOXED, *result.notes, *([SECRETS_HIDDEN] if masked.has_masked else ()))
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


def _check_pending(host: CommandHost, effects: EffectsRecorded) -> None:
    """Recheck pending changes of files that the command changed on the disk."""
    for path in {*effects.created, *effects.edited, *effects.deleted} & host.state.changes.keys():
        host.shadow.check_disk(path)
