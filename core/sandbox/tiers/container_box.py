"""Commands in a container that is the sandbox itself: the user says so, and nothing else keeps them from the machine.

In the tier `container` a command runs on a copy of the project with the pending edits, so that its effects on the
project become changes for the review. In the tier `in-place`, for machines that are thrown away, it runs in the project
itself. In both it has the machine's network, home and environment (without the keys of model APIs), and what it leaves
running goes on: in `container` until the box closes, in `in-place` for good.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from core.ids import new_id
from core.sandbox.box import BoxRequest, Tier
from core.sandbox.tiers.boxed_process import (
    BoxedProcess,
    Listeners,
    PreparedLaunch,
    SupervisedBox,
    SupervisedProcess,
    encode_command,
    make_scratch_path,
)
from core.sandbox.tiers.bwrap import capture_changes, choose_copy_directory
from core.sandbox.tiers.landlock_box import withhold_hidden_paths
from core.sandbox.tiers.project_copy import CopyLimits, copy_project
from core.sandbox.unboxed_run import find_shell, kill_marked_processes

if TYPE_CHECKING:
    from core.sandbox.inside.messages import SupervisorLaunch

BOX_VARIABLE: Final = "AGENT_TUI_BOX"


class ContainerBox(SupervisedBox):
    """The box of `container` and `in-place`."""

    def __init__(self, tier: Tier, state: Path, copy_limits: CopyLimits | None = None) -> None:
        super().__init__(tier, state)
        self._copy_limits = copy_limits
        self._mark = new_id("box")

    def _prepare_launch(self, request: BoxRequest) -> PreparedLaunch:
        if self._tier is Tier.IN_PLACE:
            return PreparedLaunch(message=self._build_message(request, request.workspace), finish=tuple, undo=tuple)
        directory = choose_copy_directory(request, make_scratch_path(self._state))
        copy = copy_project(withhold_hidden_paths(request), directory, limits=self._copy_limits, link_held=True)

        def finish(upper: Path | None) -> tuple[str, ...]:
            return capture_changes(copy, upper, is_mounted=False)

        return PreparedLaunch(
            message=self._build_message(request, copy.root),
            finish=lambda: finish(request.upper),
            undo=lambda: finish(None),
        )

    def _build_message(self, request: BoxRequest, root: Path) -> SupervisorLaunch:
        env = {**request.env, **({BOX_VARIABLE: self._mark} if self._tier is Tier.CONTAINER else {})}
        return {
            **encode_command(request.limits, (find_shell(), "-c", request.command), env),
            "cwd": os.fsencode(os.path.normpath(root / request.cwd)),
            "bubblewrap": False,
            "git_settings": b"",
            "root": None,
            "scratch": 0,
            "rules": None,
            "families": [],
            "user": None,
            "leaves_processes": True,
        }

    def _make_process(self, launch: PreparedLaunch, request: BoxRequest, listeners: Listeners) -> BoxedProcess:
        return _ContainerProcess(launch, request, listeners)

    async def close(self) -> None:
        await super().close()
        if self._tier is Tier.CONTAINER:
            await asyncio.to_thread(kill_marked_processes, BOX_VARIABLE, self._mark)


class _ContainerProcess(SupervisedProcess):
    """A command whose output outlives it: processes that it leaves running can still write there."""

    async def _release(self) -> None:
        await super()._release()
        for reader in self._readers:
            reader.hand_over()
