"""The redaction of events, on their only way out: into the log, to the clients, into what `-p` prints.

After it every text is Unicode that JSON accepts, and contains no API key of ours: a key that a model, a
tool or a file repeats is masked, also where a stream brings it in pieces. What merely looks like a key
stays (it may be the code that is worked on); contents of files are blobs and do not pass here.
"""

from __future__ import annotations

from typing import Final

import msgspec

from core.protocol import events as ev
from core.secrets import count_begun, list_masked_values, mask_secrets
from core.text.well_formed import convert_record, make_well_formed

_encoder: Final = msgspec.json.Encoder()


class EventRedactor:
    """The redactor of one session's events."""

    def __init__(self) -> None:
        self._held_back: dict[str, str] = {}

    def redact_event(self, event: ev.AnyEvent) -> ev.AnyEvent | None:
        """Return the event as it may leave; None: all of its text is held back for now."""
        match event:
            case ev.DocumentDelta(id=key, text=text):
                return ev.DocumentDelta(id=key, text=rest) if (rest := self._redact_chunk(key, text)) else None
            case ev.ToolOutput(call=key, text=text):
                return ev.ToolOutput(call=key, text=rest) if (rest := self._redact_chunk(key, text)) else None
            case ev.DocumentFinished(document=document):
                self._held_back.pop(document.id, None)
            case ev.ToolFinished(call=key):
                self._held_back.pop(key, None)
            case ev.TurnFinished():
                self._held_back.clear()
            case _:
                pass
        return _redact_whole(event)

    def _redact_chunk(self, key: str, text: str) -> str:
        """Return the next piece of a streamed text; an end that may begin a key is held back."""
        text = mask_secrets(make_well_formed(self._held_back.pop(key, "") + text))
        if count := count_begun(text):
            self._held_back[key], text = text[-count:], text[:-count]
        return text


def _redact_whole(event: ev.AnyEvent) -> ev.AnyEvent:
    try:
        raw = _encoder.encode(event)
    except UnicodeEncodeError:
        event = convert_record(event)
        raw = _encoder.encode(event)
    if any(_encoder.encode(value)[1:-1] in raw for value in list_masked_values()):
        return convert_record(event, mask_secrets)
    return event
