"""The one way by which an event of a session is recorded.

The order is fixed: the audit log, the record in the log, the fold, the clients, the listeners. A record that the disk
refuses never happened: `emit` raises and nobody sees it. What ends a turn must happen even then: `emit_surely`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from core.clock import now_ms
from core.engine.session.event_bus import EventBus
from core.errors import StateError
from core.permissions.audit import AuditLog
from core.protocol import events as ev
from core.secrets import count_partial_secret, list_masked_values, mask_secrets
from core.sessions.log import SessionLog
from core.state.fold import apply_event
from core.state.session import SessionState
from core.text.well_formed import convert_record, make_well_formed

Listener = Callable[[Any], None]
_encoder: Final = msgspec.json.Encoder()

# What the audit log keeps: the kind of the line, and the fields of the event.
AUDITED: Final[Mapping[type, tuple[str, tuple[str, ...]]]] = {
    ev.ApprovalRequested: (
        "approval.asked",
        ("id", "call", "kind", "subject", "directory", "mode", "network", "environment", "permissions", "digest"),
    ),
    ev.ApprovalResolved: ("approval.answered", ("id", "decision", "by", "pattern")),
    ev.TrustStated: ("trust", ("state", "directory")),
    ev.EffectsRecorded: ("command.ended", ("call", "command", "discarded", "on_machine")),
    ev.JobStarted: ("job.started", ("call", "id", "command")),
    ev.CommandRan: ("command.of_user", ("id", "command", "exit_code")),
    ev.FileWritten: ("file.written", ("path",)),
}


class EventRedactor:
    """Redacts the events of one session, on their only way out: into the log, to the clients, into what `-p` prints.

    After it every text is Unicode that JSON accepts, and contains no API key of ours: a key that a model, a tool or a
    file repeats is masked, also where a stream brings it in pieces. What merely looks like a key stays (it may be the
    code that is worked on); contents of files are blobs and do not pass here.
    """

    def __init__(self) -> None:
        self._held_back: dict[str, str] = {}

    def redact_event(self, event: ev.AnyEvent) -> ev.AnyEvent | None:
        """Return the event as it may leave; None: all of its text is held back for now."""
        match event:
            case ev.DocumentDelta(id=key) | ev.ToolOutput(call=key):
                text = self._redact_chunk(key, event.text)
                return replace(event, text=text) if text else None
            case ev.DocumentFinished(document=document):
                self._held_back.pop(document.id, None)
            case ev.ToolFinished(call=key):
                self._held_back.pop(key, None)
            case ev.TurnFinished():
                self._held_back.clear()
        try:
            raw = _encoder.encode(event)
        except UnicodeEncodeError:
            event = convert_record(event)
            raw = _encoder.encode(event)
        if any(_encoder.encode(value)[1:-1] in raw for value in list_masked_values()):
            return convert_record(event, mask_secrets)
        return event

    def _redact_chunk(self, key: str, text: str) -> str:
        """Return the next piece of a streamed text; an end that may begin a key is held back."""
        text = mask_secrets(make_well_formed(self._held_back.pop(key, "") + text))
        if count := count_partial_secret(text):
            self._held_back[key], text = text[-count:], text[:-count]
        return text


class EventRecorder:
    """Records the events of one session. `turn_id` stamps events, "" = no turn runs. `ahead`: what has to happen ahead
    of an event of a turn, by its class; it may emit others. `listeners` get the recorded events of their classes, after
    they count."""

    def __init__(
        self, session: str, log: SessionLog, state: SessionState, *, audit: AuditLog, ahead: Mapping[type, Listener]
    ) -> None:
        self.turn_id = ""
        self.listeners: list[tuple[tuple[type, ...], Listener]] = []
        self.bus = EventBus(session, lambda after, limit, brief: log.read(after=after, limit=limit, brief=brief))
        self._session = session
        self._log = log
        self._state = state
        self._audit = audit
        self._ahead = ahead
        self._redactor = EventRedactor()

    def emit(self, event: ev.AnyEvent, *, in_turn: bool = True, surely: bool = False) -> None:
        """Record, fold and publish an event; a live one is only published. Raises `StateError`, with no effect, if it
        can't be recorded."""
        redacted_event = self._redactor.redact_event(event)
        if redacted_event is None:
            return
        if in_turn and not surely and (prepare := self._ahead.get(type(redacted_event))) is not None:
            prepare(redacted_event)
        is_live = isinstance(redacted_event, ev.LossyEvent)
        seq, turn = self._state.seq + (not is_live), self.turn_id if in_turn or is_live else ""
        envelope = ev.Envelope(seq=seq, session=self._session, at=now_ms(), event=redacted_event, turn=turn)
        if is_live:
            self.bus.publish(envelope)
            return
        try:
            if (audit_entry := AUDITED.get(type(redacted_event))) is not None:
                kind, fields = audit_entry
                self._audit.record(kind, {name: getattr(redacted_event, name) for name in fields})
            self._log.append(envelope)
        except StateError:
            if not surely:
                raise
            self._log.defer(envelope)
        apply_event(self._state, envelope)
        self.bus.publish(envelope)
        for kinds, listener in tuple(self.listeners):
            if isinstance(redacted_event, kinds):
                listener(redacted_event)

    def emit_outside_turn(self, event: ev.AnyEvent) -> None:
        """Emit an event that belongs to no turn, though one may run."""
        self.emit(event, in_turn=False)

    def emit_surely(self, event: ev.AnyEvent) -> None:
        """Emit an event; if the disk refuses it, keep it in memory and write it as soon as the disk accepts it."""
        self.emit(event, surely=True)
