"""Attaching: sends pictures and PDFs to the engine, and puts the labels that stand for them into the prompt.

The prompt is not sent while an attachment is on its way: what is typed meanwhile stays, and an Enter waits.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from core.protocol import commands
from core.protocol.messages import Attachment
from tui.attachments import clipboard
from tui.chat.prompt import Prompt
from tui.workers import start_worker

if TYPE_CHECKING:
    from tui.screens.controllers.questions import AskingScreen

ATTACH_TIMEOUT: Final = 20.0  # seconds for the engine to say what became of a file


class AttachmentController:
    """Attaches files and the clipboard for one main screen."""

    def __init__(self, screen: AskingScreen) -> None:
        self._screen = screen
        self._labels: dict[str, asyncio.Future[str]] = {}

    @property
    def _prompt(self) -> Prompt:
        return self._screen.query_one(Prompt)

    def attach_files(self, paths: Sequence[str]) -> None:
        """Attach files by their absolute paths. The prompt is held."""
        start_worker(
            self._screen, self._submit_all, [commands.AttachmentAdd(path=each) for each in paths], group="attaching"
        )

    def attach_clipboard(self, *, is_asked: bool) -> None:
        """Attach the content of the clipboard. Not `is_asked`: a paste came with nothing in it, which may mean a
        picture. The prompt is held."""
        start_worker(self._screen, self._submit_clipboard, is_asked, group="attaching")

    async def _submit_clipboard(self, asked: bool) -> None:
        found = await clipboard.read_clipboard(clipboard.find_clipboard_tool())
        adds = [commands.AttachmentAdd(path=each) for each in found.paths]
        if found.data:
            adds.append(commands.AttachmentAdd(data=found.data, name="clipboard"))
        if adds:
            await self._submit_all(adds)
            return
        own = found.text or self._screen.app.clipboard
        self._prompt.release("")
        if own and asked:
            self._prompt.paste(own)
        elif asked or found != clipboard.EMPTY_CLIPBOARD:
            self._screen.notify_user(found.problem, found.hint, is_error=True)

    async def _submit_all(self, adds: Sequence[commands.AttachmentAdd]) -> None:
        labels: list[str] = []
        try:
            for each in adds:
                if label := await self._submit_one(each):
                    labels.append(label)
        finally:
            self._prompt.release(" ".join(labels), is_whole=len(labels) == len(adds))

    async def _submit_one(self, add: commands.AttachmentAdd) -> str:
        """Submit one attachment. Return its label; "" when it was refused, which is reported."""
        from msgspec.structs import replace

        request = secrets.token_hex(8)
        told = self._labels[request] = asyncio.get_running_loop().create_future()
        try:
            reply = await self._screen.bridge.submit(replace(add, request=request))
            if isinstance(reply, commands.Reject):
                self._screen.notify_user(reply.message, reply.hint, is_error=True)
                return ""
            async with asyncio.timeout(ATTACH_TIMEOUT):
                label: str = await told
            return label
        except TimeoutError:
            self._screen.notify_user("The engine did not take the file in.", "Attach it again.", is_error=True)
            return ""
        finally:
            del self._labels[request]

    def deliver_labels(self) -> None:
        """Pass labels that the engine has given to the attachments that wait for them."""
        labels = self._screen.state.steering.labels
        for request, told in self._labels.items():
            if request in labels and not told.done():
                told.set_result(labels[request])

    def show_pictures(self, shown: Sequence[Attachment]) -> None:
        """Show pictures as large as the window allows."""
        from tui.screens.dialogs.picture import PictureDialog

        if shown:
            _ = self._screen.app.push_screen(PictureDialog(shown, self._screen.bridge.query))
