"""One command run alone, in a clean layer: some pending text over what is on disk now, and nothing else of the session.

What commands of the session left in ignored files, in their shell (variables, functions, the directory), in `~/.cache`
and in the state of git is not there, and there is no network. Home, `/tmp` and `~/.cache` are fresh. What the command
changes is dropped when it ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from core.errors import ToolFailed
from core.git.command_view import RepositoryView
from core.ids import new_id
from core.protocol.review import Change
from core.sandbox.box import Box, BoxLimits, BoxRequest, BoxResult
from core.sandbox.plain_text import strip_escapes
from core.sandbox.results import CommandResult
from core.shadow.content.contents import Contents
from core.shadow.layers.layer_store import CommandLayer, LayerStore
from core.shadow.layers.merged_tree import MergedTree
from core.shadow.layers.pending_layer import PendingLayer
from core.shell.command_host import CommandHost
from core.shell.command_output import CommandOutput
from core.shell.disk_guard import DiskGuard
from core.shell.execution import SECRETS_HIDDEN, get_memory_limit
from core.shell.shell_state import replace_undecodable
from core.state.review import ReviewState
from core.workspace.secret_files import SecretMasker, find_secret_values
from core.workspace.withheld_paths import WithheldPaths

TIME_LIMIT = 600.0  # seconds that a check has, whatever the agent's run of it was given
NO_BOX = "Nothing on this machine can hold what a check does, so nothing is verified here."
DISCARDED = "what it changed was discarded"


class CleanRun:
    """One command over `text` (changes by path) and the disk; call `run` once. `on_output` gets what it prints, as
    plain text without the values of secret files."""

    def __init__(
        self, host: CommandHost, text: Mapping[str, Change], command: str, on_output: Callable[[str], None]
    ) -> None:
        self._host = host
        self._text = dict(text)
        self._command = command
        self._output = CommandOutput(host.directory, new_id("clean"))
        self._veil = SecretMasker(partial(self._add_output, on_output))
        self._withheld = WithheldPaths()

    def _add_output(self, on_output: Callable[[str], None], text: str) -> None:
        plain = strip_escapes(replace_undecodable(text))
        self._output.add(plain)
        on_output(plain)

    async def run(self, time_limit: float = TIME_LIMIT) -> CommandResult:
        """Run the command to its end; cancelling stops it. Raises `AgentTuiError` if it can't be started: then nothing
        of it ran. Nothing of it is left in any case."""
        box = await self._host.box.find()
        if box is None or not box.tier.is_contained:
            raise ToolFailed(NO_BOX, hint="agent-tui doctor says what a box needs.")
        layers = self._host.shadow.layers
        layer = layers.create({})
        try:
            lowers = await asyncio.to_thread(self._lay_out, layer.upper.with_name("text"))
            box_result = await self._wait(box, await self._build_request(layer, lowers, time_limit), layer)
        finally:
            self._veil.finish()
            self._output.close()
            layers.close(layer.id, keep=False)
        return self._build_result(box_result)

    def _lay_out(self, directory: Path) -> tuple[Path, ...]:
        """Lay the text out as one layer, with nothing that commands kept below it."""
        shadow = self._host.shadow
        contents, state = Contents(shadow.blobs), ReviewState(changes=self._text)
        tree = MergedTree(shadow.workspace, contents, state, LayerStore(directory), lambda change: change.pending)
        top = PendingLayer(tree).sync({path: change.pending for path, change in self._text.items()})
        return (top,) if top is not None else ()

    async def _build_request(self, layer: CommandLayer, lowers: tuple[Path, ...], time_limit: float) -> BoxRequest:
        host = self._host
        self._withheld = withheld = await asyncio.to_thread(host.withheld)
        repository: RepositoryView = await asyncio.to_thread(host.repository)
        secrets = (*withheld.covered, *withheld.masked)
        self._veil.values = await asyncio.to_thread(find_secret_values, host.workspace.root, secrets)
        return BoxRequest(
            workspace=host.workspace.root,
            command=self._command,
            env=host.build_environment() | repository.get_environment(),
            lowers=lowers,
            upper=layer.upper,
            work=layer.work,
            hidden=(*host.hidden, *withheld.outside),
            withheld=withheld.covered,
            masked=withheld.masked,
            readable=repository.list_readable(),
            repository=repository.directory,
            git_settings=repository.settings,
            limits=BoxLimits(seconds=time_limit, memory=get_memory_limit()),
        )

    async def _wait(self, box: Box, request: BoxRequest, layer: CommandLayer) -> BoxResult:
        guard = DiskGuard(self._host.directory, layer)
        request = replace(request, limits=guard.limit_file_size(request.limits))
        running = await box.start(request, self._veil.feed)
        watch = asyncio.create_task(guard.watch(running))
        try:
            box_result = await running.wait()
            return replace(box_result, exit_code=None, end_reason="disk_full") if guard.reason else box_result
        except asyncio.CancelledError:
            await asyncio.shield(asyncio.ensure_future(running.stop()))
            raise
        finally:
            watch.cancel()

    def _build_result(self, box_result: BoxResult) -> CommandResult:
        secret_notes = [SECRETS_HIDDEN] if self._veil.masked_count else []
        return CommandResult(
            exit_code=box_result.exit_code,
            output=self._output.render_text(),
            duration_ms=box_result.duration_ms,
            timed_out=box_result.end_reason == "timed_out",
            truncated=self._output.is_clipped,
            ended=box_result.end_reason,
            effects=DISCARDED,
            notes=(*box_result.notes, *self._withheld.notes, *secret_notes),
            spilled_path=self._output.spilled_path,
        )


def list_whole_text(changes: Mapping[str, Change]) -> dict[str, Change]:
    """Return all pending changes that can be accepted as they stand: what is in conflict has no text of its own yet."""
    return {path: change for path, change in changes.items() if not change.conflict}
