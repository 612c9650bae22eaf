"""The one way by which an event of a session is recorded.

The order is fixed: the audit log, the record in the log, the fold, the clients, the listeners. A record that the disk
refuses never happened: `emit` raises and nobody sees it. What ends a turn must happen even then: `emit_surely`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from core.clock import now_ms
from core.engine.session.event_bus import EventBus
from core.errors import StateError
from core.permissions.audit import AuditLog
from core.protocol import events as ev
from core.sessions.log import SessionLog
from core.sessions.redaction import EventRedactor
from core.state.fold import apply_event
from core.state.session import SessionState

Listener = Callable[[ev.AnyEvent], None]

# What the audit log keeps: the kind of the line, and the fields of the event.
AUDITED: Final[Mapping[type, tuple[str, tuple[str, ...]]]] = {
    ev.ApprovalRequested: (
        "approval.asked",
        ("id", "call", "kind", "subject", "directory", "mode", "network", "environment", "digest"),
    ),
    ev.ApprovalResolved: ("approval.answered", ("id", "decision", "by", "pattern")),
    ev.TrustStated: ("trust", ("state", "directory")),
    ev.EffectsRecorded: ("command.ended", ("call", "command", "discarded")),
    ev.JobStarted: ("job.started", ("call", "id", "command")),
    ev.CommandRan: ("command.of_user", ("id", "command", "exit_code")),
    ev.FileWritten: ("file.written", ("path",)),
}


class EventRecorder:
    """Records the events of one session. `prepare(event)` is called ahead of an event of a turn, and may emit others.
    `turn_id` stamps events, "" = no turn runs. `listeners` get every recorded event, after it counts."""

    def __init__(
        self, session: str, log: SessionLog, state: SessionState, *, audit: AuditLog, prepare: Listener
    ) -> None:
        self.turn_id = ""
        self.listeners: list[Listener] = []
        self.bus = EventBus(session, lambda after, limit, brief: log.read(after=after, limit=limit, brief=brief))
        self._session = session
        self._log = log
        self._state = state
        self._audit = audit
        self._prepare = prepare
        self._redactor = EventRedactor()

    def emit(self, event: ev.AnyEvent) -> None:
        """Record, fold and publish an event. Raises `StateError`, with no effect, if it can't be recorded."""
        if (passed := self._redact_durable(event)) is not None:
            self._prepare(passed)
            self._record(passed, self.turn_id)

    def emit_outside_turn(self, event: ev.AnyEvent) -> None:
        """Emit an event that belongs to no turn, though one may run."""
        if (passed := self._redact_durable(event)) is not None:
            self._record(passed, "")

    def emit_surely(self, event: ev.AnyEvent) -> None:
        """Emit an event; if the disk refuses it, keep it in memory and write it as soon as the disk accepts it."""
        if (passed := self._redactor.redact_event(event)) is not None:
            self._record(passed, self.turn_id, surely=True)

    def _redact_durable(self, event: ev.AnyEvent) -> ev.AnyEvent | None:
        """Return the event as it may be recorded; None: it is not recorded, and published at once if it is live."""
        passed = self._redactor.redact_event(event)
        if not isinstance(passed, ev.LossyEvent):
            return passed
        seq, turn = self._log.last_seq, self.turn_id
        self.bus.publish(ev.Envelope(seq=seq, session=self._session, at=now_ms(), event=passed, turn=turn))
        return None

    def _record(self, event: ev.AnyEvent, turn: str, *, surely: bool = False) -> None:
        seq = self._log.last_seq + 1
        envelope = ev.Envelope(seq=seq, session=self._session, at=now_ms(), event=event, turn=turn)
        try:
            if (audited := AUDITED.get(type(event))) is not None:
                kind, fields = audited
                self._audit.record(kind, {name: getattr(event, name) for name in fields})
            self._log.append(envelope)
        except StateError:
            if not surely:
                raise
            self._log.defer(envelope)
        apply_event(self._state, envelope)
        self.bus.publish(envelope)
        for listener in tuple(self.listeners):
            listener(event)
