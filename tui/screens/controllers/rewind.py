"""Going back on the main screen: choose a prompt, see what would change, choose what goes back; and forks."""

from __future__ import annotations

import time
from typing import Final

from core.protocol import commands, queries
from tui.chat.prompt import Prompt
from tui.screens.controllers.permissions import PermittingScreen
from tui.workers import start_worker

TWICE_SECONDS: Final = 1.0  # seconds between two strokes of escape that belong together
_NEVER: Final = float("-inf")


class RewindingScreen(PermittingScreen):
    """Escape twice on an empty prompt, while nothing runs, is `/rewind`."""

    clock = staticmethod(time.monotonic)
    _escaped = _NEVER

    async def action_interrupt(self) -> None:
        """From a pane back to the prompt; from the prompt: stop the turn; twice with nothing to stop: go back."""
        prompt = self.query_one(Prompt)
        rests = prompt.has_focus and not (prompt.text or self.state.is_running or self.state.is_running_command)
        await super().action_interrupt()
        now = self.clock()
        if rests and now - self._escaped <= TWICE_SECONDS:
            self._escaped = _NEVER
            self.action_rewind()
        else:
            self._escaped = now if rests else _NEVER

    def action_load_history(self, _: str = "") -> None:
        """Load the answers of a long session that were left out when it was opened."""
        start_worker(self, self._load_history_of_session, group="whole", exclusive=True)

    async def _load_history_of_session(self) -> None:
        self.notify_user("Loading the whole session…")
        self.notify_user(
            "All of the session is loaded." if await self.bridge.load_history() else "There is no more to load."
        )

    def action_rewind(self, _: str = "") -> None:
        """Go back to an earlier prompt: with the files, the conversation or both."""
        start_worker(self, self._rewind, group="picker", exclusive=True)

    async def _rewind(self) -> None:
        from tui.screens.dialogs.picker import PickerDialog
        from tui.screens.dialogs.rewind import build_options

        found = await self.bridge.query(queries.CheckpointsQuery())
        if not isinstance(found, queries.CheckpointsAnswer):
            self.notify_user(getattr(found, "message", "The checkpoints can't be listed."), is_error=True)
        elif not found.checkpoints:
            self.notify_user("There is nothing to go back to yet.", "Every prompt makes a checkpoint.")
        else:
            listed = build_options(found.checkpoints, time.time_ns() // 1_000_000)
            picked = await self.app.push_screen_wait(PickerDialog("Go back to before…", listed))
            info = next((each for each in found.checkpoints if each.id == picked), None)
            if info is not None:
                await self._preview_restore(info)

    async def _preview_restore(self, info: queries.CheckpointInfo) -> None:
        from tui.screens.dialogs.rewind import RewindDialog

        answer = await self.bridge.query(queries.CheckpointPreviewQuery(id=info.id))
        if not isinstance(answer, queries.CheckpointPreviewAnswer):
            self.notify_user(getattr(answer, "message", "The checkpoint can't be looked at."), is_error=True)
            return
        match await self.app.push_screen_wait(RewindDialog(answer)):
            case "files":
                await self.submit(commands.CheckpointRestore(id=info.id, what="files"))
            case "conversation":
                await self._restore_conversation(
                    commands.CheckpointRestore(id=info.id, what="conversation"), info.prompt
                )
            case "both":
                await self._restore_conversation(commands.CheckpointRestore(id=info.id, what="both"), info.prompt)
            case _:
                return

    async def _restore_conversation(self, command: commands.CheckpointRestore, said: str) -> None:
        """Restore, and return the prompt to the input, unless something else is written there."""
        prompt = self.query_one(Prompt)
        if await self.submit(command):
            if not prompt.text:
                prompt.text = said
                prompt.move_cursor(prompt.document.end)
            prompt.focus()

    def action_fork_session(self, _: str = "") -> None:
        """Go on in a second session with all that this one is now."""
        start_worker(self, self._fork, group="session", exclusive=True)

    async def _fork(self) -> None:
        before = self.state.session_id
        await self.switch_session(commands.SessionFork(session=before))
        if self.state.session_id != before:
            self.notify_user("This is a fork.", f"/resume {before} goes back to the session that it was made from.")
