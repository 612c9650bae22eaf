"""Takes pictures and PDFs to the engine, and puts the labels that stand for them into the prompt.

The prompt is not sent while something is under way to it: what is typed meanwhile stays, and an Enter waits.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from core.protocol import commands
from core.protocol.messages import Attachment
from tui.attaching import clipboard
from tui.widgets.prompt import Prompt
from tui.work import begin

if TYPE_CHECKING:
    from tui.screens.asking import AskingScreen

PATIENCE: Final = 20.0  # seconds for the engine to say what became of a file


class AttachingDesk:
    """Belongs to one screen."""

    def __init__(self, screen: AskingScreen) -> None:
        self._screen = screen
        self._waiting: dict[str, asyncio.Future[str]] = {}

    @property
    def _prompt(self) -> Prompt:
        return self._screen.query_one(Prompt)

    def files(self, paths: Sequence[str]) -> None:
        """Attach files by their absolute paths. The prompt is held."""
        begin(self._screen, self._take, [commands.AttachmentAdd(path=each) for each in paths], group="attaching")

    def clipboard(self, *, asked: bool) -> None:
        """Attach what is on the clipboard. Not `asked`: a paste came with nothing in it, which may mean a picture. The
        prompt is held."""
        begin(self._screen, self._take_clip, asked, group="attaching")

    async def _take_clip(self, asked: bool) -> None:
        found = await clipboard.read(clipboard.place())
        adds = [commands.AttachmentAdd(path=each) for each in found.paths]
        if found.data:
            adds.append(commands.AttachmentAdd(data=found.data, name="clipboard"))
        if adds:
            await self._take(adds)
            return
        own = found.text or self._screen.app.clipboard
        self._prompt.release("")
        if own and asked:
            self._prompt.paste(own)
        elif asked or found != clipboard.EMPTY:
            self._screen.say(found.problem, found.hint, is_error=True)

    async def _take(self, adds: Sequence[commands.AttachmentAdd]) -> None:
        labels: list[str] = []
        try:
            for each in adds:
                if label := await self._label(each):
                    labels.append(label)
        finally:
            self._prompt.release(" ".join(labels), is_whole=len(labels) == len(adds))

    async def _label(self, add: commands.AttachmentAdd) -> str:
        """The label of what was taken in; "" when it was refused, which is told."""
        from msgspec.structs import replace

        request = secrets.token_hex(8)
        told = self._waiting[request] = asyncio.get_running_loop().create_future()
        try:
            reply = await self._screen.bridge.submit(replace(add, request=request))
            if isinstance(reply, commands.Reject):
                self._screen.say(reply.message, reply.hint, is_error=True)
                return ""
            async with asyncio.timeout(PATIENCE):
                label: str = await told
            return label
        except TimeoutError:
            self._screen.say("The engine did not take the file in.", "Attach it again.", is_error=True)
            return ""
        finally:
            del self._waiting[request]

    def arrived(self) -> None:
        """Something was taken in: tell whoever waits for it."""
        labels = self._screen.state.said.labels
        for request, told in self._waiting.items():
            if request in labels and not told.done():
                told.set_result(labels[request])

    def look(self, shown: Sequence[Attachment]) -> None:
        """Show pictures as large as the window allows."""
        from tui.attaching.picture import PictureDialog

        if shown:
            _ = self._screen.app.push_screen(PictureDialog(shown, self._screen.bridge.query))
