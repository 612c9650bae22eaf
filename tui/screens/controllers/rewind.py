"""The controller of rewinds: choose a prompt, see what would change, choose what goes back."""

from __future__ import annotations

import time
from typing import Final

from core.protocol import commands, queries
from tui.screens.controller import Controller, ScreenContext, in_worker
from tui.screens.dialogs.picker import PickerDialog

TWICE_SECONDS: Final = 1.0  # between two strokes of escape that belong together
NEXT: Final = "enter shows first what would change"
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

    @in_worker("picker")
    async def action_rewind(self, _: str = "") -> None:
        from tui.screens.dialogs.rewind import build_options

        problem = "The checkpoints can't be listed."
        answer = await self.context.query(queries.CheckpointsQuery(), queries.CheckpointsAnswer, problem)
        if answer is None:
            return
        if not answer.checkpoints:
            self.context.notify_user("There is nothing to go back to yet.", "Every prompt makes a checkpoint.")
            return
        options = build_options(answer.checkpoints, time.time_ns() // 1_000_000)
        choice = await self.context.ask(PickerDialog("Go back to before…", options, explanation=NEXT))
        info = next((checkpoint for checkpoint in answer.checkpoints if checkpoint.id == choice), None)
        if info is not None:
            await self._preview_restore(info)

    async def _preview_restore(self, info: queries.CheckpointInfo) -> None:
        from tui.screens.dialogs.rewind import RewindDialog

        question = queries.CheckpointPreviewQuery(id=info.id)
        problem = "The checkpoint can't be looked at."
        answer = await self.context.query(question, queries.CheckpointPreviewAnswer, problem)
        if answer is None:
            return
        scope, prompt = await self.context.ask(RewindDialog(answer)), self.context.prompt
        if scope and await self.context.submit(commands.CheckpointRestore(id=info.id, what=scope)) and scope != "files":
            if not prompt.text:  # else something else is written there
                prompt.set_text(info.prompt)
            prompt.focus()
