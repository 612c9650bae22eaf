"""The controller of rewinds: choose a prompt, see what would change, choose what goes back."""

from __future__ import annotations

import time
from typing import Final

from core.protocol import commands, queries
from tui.screens.controller import Controller, ScreenContext

TWICE_SECONDS: Final = 1.0  # between two strokes of escape that belong together
_NEVER: Final = float("-inf")


class RewindController(Controller):
    """Goes back to an earlier prompt. Escape twice on an empty prompt, while nothing runs, is `/rewind`."""

    clock = staticmethod(time.monotonic)

    def __init__(self, context: ScreenContext) -> None:
        super().__init__(context)
        self._escaped_at = _NEVER

    def note_escape(self, *, is_idle: bool) -> None:
        """Take note of an escape; `is_idle`: from an empty prompt, with nothing to stop."""
        now = self.clock()
        if is_idle and now - self._escaped_at <= TWICE_SECONDS:
            self._escaped_at = _NEVER
            self.action_rewind()
        else:
            self._escaped_at = now if is_idle else _NEVER

    def action_rewind(self, _: str = "") -> None:
        """Go back to an earlier prompt: with the files, the conversation or both."""
        self.context.start(self._rewind, group="picker", exclusive=True)

    async def _rewind(self) -> None:
        from tui.screens.dialogs.picker import PickerDialog
        from tui.screens.dialogs.rewind import build_options

        problem = "The checkpoints can't be listed."
        found = await self.context.query(queries.CheckpointsQuery(), queries.CheckpointsAnswer, problem)
        if found is None:
            return
        if not found.checkpoints:
            self.context.notify_user("There is nothing to go back to yet.", "Every prompt makes a checkpoint.")
        else:
            options = build_options(found.checkpoints, time.time_ns() // 1_000_000)
            picked = await self.context.ask(PickerDialog("Go back to before…", options))
            info = next((each for each in found.checkpoints if each.id == picked), None)
            if info is not None:
                await self._preview_restore(info)

    async def _preview_restore(self, info: queries.CheckpointInfo) -> None:
        from tui.screens.dialogs.rewind import RewindDialog

        question = queries.CheckpointPreviewQuery(id=info.id)
        problem = "The checkpoint can't be looked at."
        answer = await self.context.query(question, queries.CheckpointPreviewAnswer, problem)
        if answer is None:
            return
        match await self.context.ask(RewindDialog(answer)):
            case "files":
                await self.context.submit(commands.CheckpointRestore(id=info.id, what="files"))
            case "conversation":
                await self._restore(commands.CheckpointRestore(id=info.id, what="conversation"), info.prompt)
            case "both":
                await self._restore(commands.CheckpointRestore(id=info.id, what="both"), info.prompt)
            case _:
                return

    async def _restore(self, command: commands.CheckpointRestore, text: str) -> None:
        """Restore, and return the prompt `text` to the input, unless something else is written there."""
        prompt = self.context.prompt
        if await self.context.submit(command):
            if not prompt.text:
                prompt.text = text
                prompt.move_cursor(prompt.document.end)
            prompt.focus()
