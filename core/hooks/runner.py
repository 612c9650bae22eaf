"""Runs one hook in the box, over the shadow, with limits of time and output; its changes wait for the review.

The trusted scripts run: if a script of the project has pending changes, the version on the disk is mounted over it. The
agent's shell is not affected.
"""

from __future__ import annotations

import asyncio
import stat
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from core.errors import AgentTuiError, PathRefused
from core.filesystem.private_files import make_private_directory
from core.filesystem.removal import remove_tree
from core.hooks.answers import HookRun
from core.hooks.hook_files import MAX_SCRIPT, explain_missing, find_script, list_script_files
from core.hooks.parsing import Hook
from core.ids import new_id
from core.protocol.review import Origin
from core.sandbox.results import CommandResult
from core.shell.command_host import CommandHost, CommandRequest
from core.shell.execution import Execution
from core.shell.shell_state import ShellState
from core.user_dirs import get_config_dir

TOOL: Final = "hook"
MAX_OUTPUT: Final = 1 << 20  # characters per output stream
NOT_HELD: Final = "hooks can't be sandboxed on this machine, so none runs"
# The user's folders of hook scripts and their imports; the rest of a home is invisible.
_SCRIPT_FOLDERS: Final = (".cursor/hooks", ".claude/hooks", ".agent-tui/hooks")
_ENDS: Final = {
    "flooded": "it wrote too much",
    "out_of_memory": "it used too much memory",
    "disk_full": "there was no space for what it wrote",
    "lost": "the sandbox ended before it did",
    "stopped": "it was stopped",
}


class _Collector:
    """One output stream of a hook, up to the limit."""

    def __init__(self) -> None:
        self.text = ""
        self.is_clipped = False

    def add(self, text: str) -> None:
        room = MAX_OUTPUT - len(self.text)
        self.is_clipped = self.is_clipped or len(text) > room
        self.text += text[: max(room, 0)]


class HookRunner(Struct, frozen=True):
    """Runs hooks over one session's shadow. `keeps_effects()`: their changes wait for the review, else they are
    dropped; `refuse(command)`: why a user's rule forbids a command; None: none does."""

    host: CommandHost
    keeps_effects: Callable[[], bool]
    refuse: Callable[[str], str | None]

    async def run(self, hook: Hook, stdin: bytes, *, turn: str = "", env: Mapping[str, str] = {}) -> HookRun:
        """Run a hook to its end. Cancelling stops it and drops its changes; no other exception is raised."""
        root = self.host.workspace.root
        refusal = await asyncio.to_thread(explain_missing, hook, root)
        if refusal is None:
            refusal = self.refuse(hook.command)
        if refusal is not None:
            return HookRun(problem=refusal)
        box = await self.host.box.find()
        if box is None or not box.tier.can_run_unasked:
            return HookRun(problem=NOT_HELD)
        output, errors, overlay = _Collector(), _Collector(), await asyncio.to_thread(self._pin_scripts, hook)
        origin = Origin(turn=turn, call=new_id("hook"), tool=TOOL, command=hook.command)
        request = CommandRequest(
            command=_build_command(hook),
            origin=origin,
            keeps_effects=self.keeps_effects(),
            time_limit=hook.timeout,
            env=env,
            stdin=stdin,
            overlays=(overlay,) if overlay else (),
            on_stderr=errors.add,
        )
        execution = Execution(_add_readable(self.host, hook), request, ShellState(), output.add)
        try:
            await execution.begin(box)
            return _build_run(hook, await execution.end(), output, errors)
        except asyncio.CancelledError:
            await asyncio.shield(asyncio.ensure_future(execution.abort()))
            raise
        except AgentTuiError as problem:
            return HookRun(problem=problem.message)
        finally:
            if overlay:
                await asyncio.to_thread(_remove, overlay)

    def _pin_scripts(self, hook: Hook) -> Path | None:
        """Create a layer with the disk's versions of scripts that have pending changes. Returns None if there are
        none."""
        workspace, layer = self.host.workspace, None
        for script in list_script_files(hook, workspace.root):
            path = script.relative_to(workspace.root).as_posix()
            with suppress(PathRefused, OSError):
                data = workspace.read_bytes(path, MAX_SCRIPT)
                if self._read_pending(path) != data:
                    layer = layer or self._make_layer()
                    (layer / path).parent.mkdir(mode=0o755, parents=True, exist_ok=True)
                    (layer / path).write_bytes(data)
                    (layer / path).chmod(stat.S_IMODE(script.stat().st_mode))
        return layer

    def _make_layer(self) -> Path:
        make_private_directory(self.host.directory)
        layer = Path(tempfile.mkdtemp(prefix="hook-", dir=self.host.directory))
        layer.chmod(stat.S_IMODE(self.host.workspace.root.stat().st_mode) | 0o700)
        return layer

    def _read_pending(self, path: str) -> bytes | None:
        try:
            return self.host.shadow.read(path, MAX_SCRIPT)
        except PathRefused:
            return None


def _build_command(hook: Hook) -> str:
    names = ("CLAUDE_PROJECT_DIR", "CURSOR_PROJECT_DIR", "AGENT_TUI_PROJECT_DIR")
    lines = [f'export {name}="$PWD"' for name in names]
    if hook.home:
        import shlex

        quoted_home = shlex.quote(hook.home)
        lines += (
            [f"export CLAUDE_PLUGIN_ROOT={quoted_home} CURSOR_PLUGIN_ROOT={quoted_home}"]
            if hook.scope == "plugin"
            else []
        )
        lines += [f"mkdir -p {quoted_home} 2> /dev/null; cd {quoted_home} || exit 126"] if hook.directory else []
    return "\n".join([*lines, hook.command])


def _add_readable(host: CommandHost, hook: Hook) -> CommandHost:
    """Return the host with the folder of a hook's script readable, if it is one of the user's own."""
    script = find_script(hook, host.workspace.root)
    if hook.scope == "project" or script is None or script.is_relative_to(host.workspace.root):
        return host
    folders = [Path.home() / name for name in _SCRIPT_FOLDERS] + [get_config_dir() / "hooks"]
    folders += [Path(hook.home)] if hook.scope == "plugin" and hook.home else []
    readable_path = next((folder for folder in folders if script.is_relative_to(folder)), script)
    return replace(host, readable=lambda: (*host.readable(), readable_path))


def _build_run(hook: Hook, result: CommandResult, output: _Collector, errors: _Collector) -> HookRun:
    problem = None
    if result.timed_out:
        problem = f"it was still running after {hook.timeout:g} s"
    elif result.exit_code is None:
        problem = _ENDS.get(result.ended, result.ended)
    elif output.is_clipped or errors.is_clipped:
        problem = f"it wrote more than {MAX_OUTPUT >> 20} MB"
    return HookRun(
        exit_code=result.exit_code,
        stdout=output.text,
        stderr=errors.text,
        problem=problem,
        duration_ms=result.duration_ms,
        effects=result.effects if result.effects.startswith("changed: ") else "",
    )


def _remove(path: Path) -> None:
    with suppress(OSError):
        remove_tree(path)
