"""The controller of messages that no model was sent yet: one of them edited, cancelled, or sent at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final, Literal, NamedTuple

from textual.content import Content

from core.protocol import commands
from core.text.counting import count
from tui.keymap import get_bindings
from tui.screens.controller import Controller, in_worker
from tui.screens.dialogs.listings.listing import ListingDialog
from tui.text import fit_line

STOP_SECONDS: Final = 20.0  # that a turn is given to end before a message begins the next one
QueueAction = Literal["edit", "send", "cancel"]
_KEYS: Final = (
    ("queue.edit", "edit"),
    ("queue.send", "send now"),
    ("queue.cancel", "cancel"),
    ("queue.leave", "back"),
)
_TOLD: Final = 300


class QueueChoice(NamedTuple):
    """The user's choice for a message, by its id."""

    action: QueueAction
    message: str


class QueueDialog(ListingDialog[QueueChoice]):
    """Shows `waiting` messages by their ids, the oldest first; answers with a choice, None = they go on waiting."""

    BINDINGS = get_bindings("queue")

    def __init__(self, waiting: Mapping[str, str]) -> None:
        super().__init__("Messages that wait")
        self._ids, self._texts = list(waiting), list(waiting.values())

    def set_up(self) -> None:
        self.show_keys(_KEYS)
        rows = [Content(fit_line(text, _TOLD)) for text in self._texts]
        self.show_rows(f"{count('message', len(rows))} for the model's next step.", rows, ())

    def show_reason(self) -> None:
        index = self.marked
        if index is not None and index < len(self._texts):
            lines = self._texts[index].count("\n")
            self.tell(f"and {count('more line', lines)}" if lines else "")

    def action_choose(self, action: QueueAction) -> None:
        if self.marked is not None:
            self.answer(QueueChoice(action, self._ids[self.marked]))


class QueueController(Controller):
    """Lists the messages that wait for the next step of the turn, and acts on one of them."""

    @in_worker("picker")
    async def action_show_queue(self, _: str = "") -> None:
        while waiting := dict(self.context.state.pending_steers):
            choice = await self.context.ask(QueueDialog(waiting))
            if choice is None:
                return
            action, message = choice
            if message not in self.context.state.pending_steers:
                self.context.notify_user("The model was sent this message meanwhile.", is_error=True)
                return
            if action == "edit":
                await self.context.submit(commands.TurnUnsteer(ids=(message,)))
                self.context.focus_prompt()
                return
            await self._take_out(message)
            if action == "send":
                await self._send(waiting[message])
                return
        self.context.notify_user("No message waits to be sent.")

    async def _take_out(self, message: str) -> None:
        """Take a message out of the queue for good: it does not come back into the prompt."""
        self.context.state.steering.dropped.add(message)
        if await self.context.submit(commands.TurnUnsteer(ids=(message,))):
            await self._wait(lambda: message not in self.context.state.pending_steers)
        else:
            self.context.state.steering.dropped.discard(message)

    async def _send(self, text: str) -> None:
        """Stop the turn, and begin one with this text; what can't be sent is offered in the prompt."""
        if self.context.state.is_running:
            await self.context.submit(commands.TurnInterrupt())
            await self._wait(lambda: not self.context.state.is_running)
        if not await self.context.submit(commands.TurnSubmit(text=text)):
            self.context.prompt.restore_text(text)

    async def _wait(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds, but not for ever: what is refused then is told."""
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_SECONDS):
                while not holds():
                    await self.context.bridge.wait_until_caught_up(self.context.state.seq + 1)
