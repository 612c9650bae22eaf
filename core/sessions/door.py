"""The one door through which an event leaves: into the log, to the clients, into what `-p` prints.

Behind it every text is Unicode that JSON takes, and no key of ours stands in one: a key that a model, a tool or a file
repeats is masked, also where a stream brings it in pieces. What merely looks like a key stays (it may be the code that
is worked on); contents of files are blobs and never come by here.
"""

from __future__ import annotations

from typing import Final

import msgspec

from core.protocol import events as ev
from core.secrets import begun, masked, strong
from core.wellformed import converted, well_formed

_encoder: Final = msgspec.json.Encoder()


class Door:
    """Belongs to one session."""

    def __init__(self) -> None:
        self._held: dict[str, str] = {}

    def passed(self, event: ev.AnyEvent) -> ev.AnyEvent | None:
        """The event as it may leave; None: nothing of it may yet."""
        match event:
            case ev.DocumentDelta(id=key, text=text):
                return ev.DocumentDelta(id=key, text=rest) if (rest := self._flowing(key, text)) else None
            case ev.ToolOutput(call=key, text=text):
                return ev.ToolOutput(call=key, text=rest) if (rest := self._flowing(key, text)) else None
            case ev.DocumentFinished(document=document):
                self._held.pop(document.id, None)
            case ev.ToolFinished(call=key):
                self._held.pop(key, None)
            case ev.TurnFinished():
                self._held.clear()
            case _:
                pass
        return _harmless(event)

    def _flowing(self, key: str, text: str) -> str:
        """The next piece of a text that flows; its end waits while it may be the beginning of a key."""
        text = masked(well_formed(self._held.pop(key, "") + text))
        if count := begun(text):
            self._held[key], text = text[-count:], text[:-count]
        return text


def _harmless(event: ev.AnyEvent) -> ev.AnyEvent:
    try:
        raw = _encoder.encode(event)
    except UnicodeEncodeError:
        event = converted(event)
        raw = _encoder.encode(event)
    if any(_encoder.encode(value)[1:-1] in raw for value in strong()):
        return converted(event, masked)
    return event
