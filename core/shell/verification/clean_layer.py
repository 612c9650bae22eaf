"""A clean layer, in which commands run alone: pending text over the files on disk, and nothing else of the session.

Nothing is there that its commands left in ignored files, in their shell (variables, functions, the directory), in
`~/.cache` and in the state of git. There is no network, and home, `/tmp` and `~/.cache` are fresh. What a command
changes is dropped when it ends. The text is laid out once, and each run may see other content in some of its files.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from core.errors import ToolFailed
from core.filesystem.overlay_support import make_whiteout
from core.git.command_view import RepositoryView
from core.ids import new_id
from core.protocol.review import Change
from core.sandbox.box import Box, BoxLimits, BoxRequest, BoxResult
from core.sandbox.results import CommandResult
from core.shadow.content.contents import Contents
from core.shadow.layers.layer_store import CommandLayer, LayerStore
from core.shadow.layers.merged_tree import MergedTree
from core.shadow.layers.overlayfs import get_layer_path
from core.shadow.layers.pending_layer import PendingLayer
from core.shell.command_host import CommandHost, get_memory_limit
from core.shell.disk_guard import DiskGuard
from core.shell.long_output import SECRETS_HIDDEN, CommandOutput
from core.shell.masked_output import MaskedOutput
from core.state.review import ReviewState
from core.tasks import finish_in_thread
from core.workspace.secret_files import find_secret_values
from core.workspace.withheld_paths import WithheldPaths

TIME_LIMIT = 600.0  # seconds, independent of the time limit of the agent's run
NO_BOX = "Checks can't be sandboxed on this machine, so nothing is verified here."
DISCARDED = "its changes were discarded"
# A file of the same size that is written in the same second is not compiled again by tools that compare times.
_LATER: Final = 2_000_000_000  # ns


class FileVariant(Struct, frozen=True):
    """Other content of a file for one run; None = it does not exist."""

    content: bytes | None
    mode: int = 0o644


class CleanRunOptions(Struct, frozen=True, kw_only=True):
    """The rest of a run besides the text. `variants`: other content by path; `env`: more variables; `readable` and
    `writable`: as in `BoxRequest`."""

    seconds: float = TIME_LIMIT
    variants: Mapping[str, FileVariant] = {}
    env: Mapping[str, str] = {}
    readable: tuple[Path, ...] = ()
    writable: tuple[tuple[Path, Path], ...] = ()


class CleanLayer:
    """The layer of `text` (changes by path). Call `open` once, then `run` as often as needed, then `close`. `layers`:
    where the layers are made, None = among those of the session's commands."""

    def __init__(self, host: CommandHost, text: Mapping[str, Change], layers: LayerStore | None = None) -> None:
        self._host = host
        self._text = dict(text)
        self._layers = host.shadow.layers if layers is None else layers
        self._box: Box | None = None
        self._base: CommandLayer | None = None
        self._lowers: tuple[Path, ...] = ()
        self._withheld = WithheldPaths()
        self._repository = RepositoryView()
        self._secret_values: tuple[str, ...] = ()

    async def open(self) -> None:
        """Lay out the text. Raises `AgentTuiError` if nothing can be run."""
        host = self._host
        box = await host.box.find()
        if box is None or not box.tier.is_contained:
            raise ToolFailed(NO_BOX, hint="agent-tui doctor says what the sandbox needs.")
        self._box, self._base = box, self._layers.create({})
        self._lowers = await finish_in_thread(self._lay_out, self._base.upper.with_name("text"))
        await host.shadow.dates.wait()
        self._withheld = await asyncio.to_thread(host.withheld)
        self._repository = await asyncio.to_thread(host.repository)
        secrets = (*self._withheld.covered, *self._withheld.masked)
        self._secret_values = await asyncio.to_thread(find_secret_values, host.workspace.root, secrets)

    def close(self) -> None:
        """Remove the text. Call it also when `open` has failed."""
        if self._base is not None:
            self._layers.close(self._base.id, keep=False)
            self._base = None

    def read(self, path: str) -> bytes:
        """Return the text of a changed file as it is laid out; empty if it does not exist."""
        for lower in self._lowers:
            file = get_layer_path(lower, path)
            if file.is_file():
                return file.read_bytes()
        return b""

    async def run(
        self, command: str, on_output: Callable[[str], None], options: CleanRunOptions | None = None
    ) -> CommandResult:
        """Run one command to its end; cancelling stops it. `on_output` gets its output in pieces
        (`core.state.live_text`), without the values of secret files. Raises `AgentTuiError` if it can't be started."""
        assert self._box is not None, "The layer is open."
        options = options or CleanRunOptions()
        output = CommandOutput(self._host.directory, new_id("clean"))
        masked = MaskedOutput(output, on_output, self._secret_values)
        layer = self._layers.create({})
        try:
            lay_out = partial(_lay_out_variants, layer.upper.with_name("variant"))
            variant = await finish_in_thread(lay_out, options.variants)
            request = self._build_request(command, layer, (*variant, *self._lowers), options)
            result = await self._wait(self._box, request, layer, masked)
        finally:
            masked.finish()
            output.close()
            self._layers.close(layer.id, keep=False)
        return self._build_result(result, output, masked)

    def _lay_out(self, directory: Path) -> tuple[Path, ...]:
        """Write the text as one layer, without the layers of commands below it."""
        shadow = self._host.shadow
        contents, state = Contents(shadow.blobs), ReviewState(changes=self._text)
        tree = MergedTree(shadow.workspace, contents, state, LayerStore(directory), lambda change: change.pending)
        top = PendingLayer(tree, shadow.dates).sync({path: change.pending for path, change in self._text.items()})
        return (top,) if top is not None else ()

    def _build_request(
        self, command: str, layer: CommandLayer, lowers: tuple[Path, ...], options: CleanRunOptions
    ) -> BoxRequest:
        host, withheld, repository = self._host, self._withheld, self._repository
        return BoxRequest(
            workspace=host.workspace.root,
            command=command,
            env=host.build_environment() | repository.get_environment() | dict(options.env),
            lowers=lowers,
            upper=layer.upper,
            work=layer.work,
            hidden=(*host.hidden, *withheld.outside),
            withheld=withheld.covered,
            masked=withheld.masked,
            readable=(*host.programs, *repository.list_readable(), *options.readable),
            writable=options.writable,
            repository=repository.directory,
            git_settings=repository.settings,
            limits=BoxLimits(seconds=options.seconds, memory=get_memory_limit()),
            raw=True,
        )

    async def _wait(self, box: Box, request: BoxRequest, layer: CommandLayer, masked: MaskedOutput) -> BoxResult:
        guard = DiskGuard(self._host.directory, layer)
        request = replace(request, limits=guard.limit_file_size(request.limits))
        running = await box.start(request, masked.feed)
        watch = asyncio.create_task(guard.watch(running))
        try:
            box_result = await running.wait()
            return replace(box_result, exit_code=None, end_reason="disk_full") if guard.reason else box_result
        except asyncio.CancelledError:
            await asyncio.shield(asyncio.ensure_future(running.stop()))
            raise
        finally:
            watch.cancel()

    def _build_result(self, box_result: BoxResult, output: CommandOutput, masked: MaskedOutput) -> CommandResult:
        secret_notes = [SECRETS_HIDDEN] if masked.has_masked else []
        return CommandResult(
            exit_code=box_result.exit_code,
            output=output.render_text(),
            duration_ms=box_result.duration_ms,
            timed_out=box_result.end_reason == "timed_out",
            truncated=output.is_clipped,
            ended=box_result.end_reason,
            effects=DISCARDED,
            notes=(*box_result.notes, *self._withheld.notes, *secret_notes),
            spilled_path=output.spilled_path,
            unproven=box_result.unproven,
        )


def _lay_out_variants(directory: Path, variants: Mapping[str, FileVariant]) -> tuple[Path, ...]:
    """Write other content of files as a layer over the text. Raises OSError."""
    if not variants:
        return ()
    moment = time.time_ns() + _LATER
    for path, variant in variants.items():
        target = get_layer_path(directory, path)
        target.parent.mkdir(parents=True, exist_ok=True)
        if variant.content is None:
            make_whiteout(target)
            continue
        target.write_bytes(variant.content)
        target.chmod(variant.mode)
        os.utime(target, ns=(moment, moment))
    return (directory,)
