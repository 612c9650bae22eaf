"""Pictures and PDFs that a front end without a screen sends along: attached to the session before the prompt.

The label of each is the one that its own request was given, whoever attaches to the session at the same time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from msgspec.structs import replace

from core.errors import CommandRejected
from core.ids import new_id
from core.protocol import commands as cmd
from core.protocol import events as ev

Submit = Callable[[cmd.AnyCommand], Awaitable[Any]]
Settle = Callable[[], Awaitable[None]]


class AttachedLabels:
    """Attaches files to one session. `take_in` has to get the events of the session. `submit` raises for a command that
    is rejected; `settle` waits until all that was accepted has been taken in."""

    def __init__(self, submit: Submit, settle: Settle) -> None:
        self._submit, self._settle = submit, settle
        self._labels: dict[str, str] = {}  # by request; "" = not known yet

    def take_in(self, event: ev.Event) -> None:
        """Note the label that a request was given."""
        if isinstance(event, ev.AttachmentAdded) and event.request in self._labels:
            self._labels[event.request] = event.label

    async def attach(self, files: Iterable[cmd.AttachmentAdd]) -> tuple[str, ...]:
        """Attach files and return their labels, in this order. Raises what `submit` raises, and `CommandRejected` when
        the session was closed meanwhile."""
        requests = list[str]()
        for file in files:
            requests.append(request := new_id("att"))
            self._labels[request] = ""
            await self._submit(replace(file, request=request))
        if requests:
            await self._settle()
        labels = tuple(self._labels.pop(request_id) for request_id in requests)
        if not all(labels):
            raise CommandRejected("the session was closed before the files were attached.", code="session_unknown")
        return labels
