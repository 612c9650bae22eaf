"""Attaching: sends pictures and PDFs to the engine, and puts the labels that stand for them into the prompt.

The prompt is not sent while an attachment is on its way: what is typed meanwhile stays, and an Enter waits.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from typing import Final

from core.protocol import commands
from core.protocol.messages import Attachment
from tui.attachments import clipboard
from tui.screens.controller import ScreenContext

ATTACH_TIMEOUT: Final = 20.0  # seconds for the engine to say what became of a file


class Attacher:
    """Attaches files and the clipboard for one main screen."""

    def __init__(self, context: ScreenContext) -> None:
        self._context = context
        self._labels: dict[str, asyncio.Future[str]] = {}

    def attach_files(self, paths: Sequence[str]) -> None:
        """Attach files by their absolute paths. The prompt is held."""
        adds = [commands.AttachmentAdd(path=path) for path in paths]
        self._context.start(self._submit_all, adds, group="attaching")

    def attach_clipboard(self, *, is_asked: bool) -> None:
        """Attach the content of the clipboard. Not `is_asked`: an empty paste came, which may mean a picture. The
        prompt is held."""
        self._context.start(self._submit_clipboard, is_asked, group="attaching")

    async def _submit_clipboard(self, is_asked: bool) -> None:
        clipboard_content = await clipboard.read_clipboard(clipboard.find_clipboard_tool())
        adds = [commands.AttachmentAdd(path=path) for path in clipboard_content.paths]
        if clipboard_content.data:
            adds.append(commands.AttachmentAdd(data=clipboard_content.data, name="clipboard"))
        if adds:
            await self._submit_all(adds)
            return
        text = clipboard_content.text or self._context.screen.app.clipboard
        self._context.prompt.release("")
        if text and is_asked:
            self._context.prompt.paste(text)
        elif is_asked or clipboard_content != clipboard.EMPTY_CLIPBOARD:
            self._context.notify_user(clipboard_content.problem, clipboard_content.hint, is_error=True)

    async def _submit_all(self, adds: Sequence[commands.AttachmentAdd]) -> None:
        labels: list[str] = []
        try:
            for add in adds:
                if label := await self._submit_one(add):
                    labels.append(label)
        finally:
            self._context.prompt.release(" ".join(labels), is_whole=len(labels) == len(adds))

    async def _submit_one(self, add: commands.AttachmentAdd) -> str:
        """Submit one attachment. Return its label; "" when it was refused, which is reported."""
        from msgspec.structs import replace

        request = secrets.token_hex(8)
        label: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._labels[request] = label
        try:
            reply = await self._context.bridge.submit(replace(add, request=request))
            if isinstance(reply, commands.Reject):
                self._context.notify_user(reply.message, reply.hint, is_error=True)
                return ""
            async with asyncio.timeout(ATTACH_TIMEOUT):
                return await label
        except TimeoutError:
            self._context.notify_user("The engine did not take the file in.", "Attach it again.", is_error=True)
            return ""
        finally:
            del self._labels[request]

    def deliver_labels(self) -> None:
        """Pass labels that the engine has given to the attachments that wait for them."""
        labels = self._context.state.steering.labels
        for request, label in self._labels.items():
            if request in labels and not label.done():
                label.set_result(labels[request])

    def show_pictures(self, attachments: Sequence[Attachment]) -> None:
        from tui.screens.dialogs.picture import PictureDialog

        if attachments:
            self._context.show(PictureDialog(attachments, self._context.bridge.query))
