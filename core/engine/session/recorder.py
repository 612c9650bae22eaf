"""Record the events of a session and publish them to its clients.

The order is fixed: audit log, session log, fold, clients, listeners. An event that the disk refuses has not happened:
`emit` raises and nobody sees it. Events that end a turn must happen even then: `emit_or_defer`.

Every client gets every durable event in order and without gaps. Only live deltas may be merged or dropped. The queue of
a client that does not keep up is emptied: durable events are then read back from the log, and `stream.lagged` reports
once how many lossy ones it missed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from core.clock import now_ms
from core.errors import StateError
from core.permissions.audit import AuditLog
from core.protocol import events as ev
from core.protocol.events import AsideDelta, DocumentDelta, Envelope, LossyEvent, StreamLagged, ToolOutput
from core.secrets import count_partial_secret, list_masked_values, mask_secrets
from core.sessions.log import SessionLog
from core.state.fold import apply_event
from core.state.session import SessionState
from core.text.well_formed import convert_record, make_well_formed

MAX_QUEUED: Final = 2_000
READ_BATCH: Final = 512
MAX_MERGED: Final = 64 * 1024
Listener = Callable[[Any], None]
_encoder: Final = msgspec.json.Encoder()
# The events in the audit log: the kind of the line, and the fields of the event.
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


class EventRecorder:
    """Records the events of one session. `turn_id` stamps events, "" = no turn runs. `preparations`: handlers that run
    before an event of a turn, by its class, and may emit others. `listeners` get the events of their classes after
    these are recorded."""

    def __init__(
        self,
        session: str,
        log: SessionLog,
        state: SessionState,
        *,
        audit: AuditLog,
        preparations: Mapping[type, Listener],
    ) -> None:
        self.turn_id = ""
        self.listeners: list[tuple[tuple[type, ...], Listener]] = []
        self.bus = EventBus(session, lambda after, limit, brief: log.read(after=after, limit=limit, brief=brief))
        self._session = session
        self._log = log
        self._state = state
        self._audit = audit
        self._preparations = preparations
        self._redactor = EventRedactor()

    def emit(self, event: ev.AnyEvent, *, in_turn: bool = True, may_defer: bool = False) -> None:
        """Record, fold and publish an event; a lossy one is only published. Raises `StateError`, with no effect, if the
        event can't be recorded. `may_defer`: then the event waits in memory instead."""
        redacted_event = self._redactor.redact_event(event)
        if redacted_event is None:
            return
        if in_turn and not may_defer and (prepare := self._preparations.get(type(redacted_event))) is not None:
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
            if not may_defer:
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

    def emit_or_defer(self, event: ev.AnyEvent) -> None:
        """Emit an event; if the disk refuses it, hold it in memory and write it as soon as the disk accepts it."""
        self.emit(event, may_defer=True)


class EventRedactor:
    """Redacts the events of one session before they reach the log, the clients and the output of `-p`.

    Afterwards every text is Unicode that JSON accepts, and contains no known API key: a key that a model, a tool or a
    file repeats is masked, even if a stream splits it. A text that only looks like a key stays, since it may belong to
    the project's code. Contents of files are blobs and are not redacted.
    """

    def __init__(self) -> None:
        self._held_back: dict[str, str] = {}

    def redact_event(self, event: ev.AnyEvent) -> ev.AnyEvent | None:
        """Return the redacted event; None: all of its text is held back for now."""
        match event:
            case ev.DocumentDelta(id=key) | ev.AsideDelta(id=key) | ev.ToolOutput(call=key):
                text = self._redact_chunk(key, event.text)
                return replace(event, text=text) if text else None
            case ev.DocumentFinished(document=document):
                self._held_back.pop(document.id, None)
            case ev.ToolFinished(call=key) | ev.AsideAnswered(id=key):
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
        """Return the next piece of a streamed text; a tail that may be the start of a key is held back."""
        text = mask_secrets(make_well_formed(self._held_back.pop(key, "") + text))
        if count := count_partial_secret(text):
            self._held_back[key], text = text[-count:], text[:-count]
        return text


class _LiveText(Struct, eq=False):
    """Queued deltas of one document or side answer, or output of one call; joined only when the client takes them."""

    first: Envelope
    key: tuple[type, str]
    texts: list[str]
    length: int

    def to_envelope(self) -> Envelope:
        if len(self.texts) == 1:
            return self.first
        return replace(self.first, event=replace(self.first.event, text="".join(self.texts)))


class Subscription(Struct, eq=False):
    """One client's view of one session: first the events in the log after `seen`, the last durable seq that the client
    has (`brief`: not all of them), then live ones."""

    bus: EventBus
    seen: int
    brief: bool = False
    _queue: deque[Envelope | _LiveText] = field(default_factory=deque)
    _is_behind: bool = True
    _is_closed: bool = False
    _dropped: int = 0
    _wake: asyncio.Event = field(default_factory=asyncio.Event)

    def offer(self, envelope: Envelope) -> None:
        """Queue a live event. Never blocks."""
        self._wake.set()
        event = envelope.event
        if self._is_behind:
            self._dropped += isinstance(event, LossyEvent)
            return
        item: Envelope | _LiveText = envelope
        if isinstance(event, DocumentDelta | AsideDelta | ToolOutput):
            key = (type(event), event.call if isinstance(event, ToolOutput) else event.id)
            if self._merge(key, event.text):
                return
            item = _LiveText(envelope, key, [event.text], len(event.text))
        self._queue.append(item)
        if len(self._queue) > MAX_QUEUED:
            self._dropped += sum(
                isinstance(entry, _LiveText) or isinstance(entry.event, LossyEvent) for entry in self._queue
            )
            self._queue.clear()
            self._is_behind = True

    def _merge(self, key: tuple[type, str], text: str) -> bool:
        """Append a text to the queued one of the same key. Return False if there is none, or it is long already."""
        for waiting in reversed(self._queue):
            if not isinstance(waiting, _LiveText):
                return False
            if waiting.key == key:
                if waiting.length > MAX_MERGED:
                    return False
                waiting.texts.append(text)
                waiting.length += len(text)
                return True
        return False

    def close(self) -> None:
        """End the iteration after what is queued now."""
        self._is_closed = True
        self._wake.set()

    async def iter_envelopes(self) -> AsyncGenerator[Envelope]:
        """Yield durable events after `seen`, then live ones, until the bus is closed."""
        self.bus.subscriptions[self] = None
        try:
            while True:
                if self._is_behind:
                    for envelope in self._read_back():
                        yield envelope
                elif self._queue:
                    item = self._queue.popleft()
                    if isinstance(item, _LiveText):
                        yield item.to_envelope()
                    else:
                        self.seen = item.seq
                        yield item
                elif self._is_closed:
                    return
                else:
                    self._wake.clear()
                    await self._wake.wait()
        finally:
            self.bus.subscriptions.pop(self, None)

    def _read_back(self) -> list[Envelope]:
        """Return the next durable events from the log; once caught up, the subscription is live."""
        envelopes = self.bus.read_back(self.seen, READ_BATCH, self.brief)
        if envelopes:
            self.seen = envelopes[-1].seq
            return envelopes
        self._is_behind = False
        if not self._dropped:
            return []
        event = StreamLagged(dropped=self._dropped)
        self._dropped = 0
        return [Envelope(seq=self.seen, session=self.bus.session, at=now_ms(), event=event)]


class EventBus(Struct, eq=False):
    """The subscribers of one session. `read_back(after, limit, brief)` returns durable events from the log."""

    session: str
    read_back: Callable[[int, int, bool], list[Envelope]]
    subscriptions: dict[Subscription, None] = field(default_factory=dict)

    def publish(self, envelope: Envelope) -> None:
        """Offer an event to every subscriber. A durable one must be in the log already."""
        for subscription in self.subscriptions:
            subscription.offer(envelope)

    def close(self) -> None:
        """End every subscription after its queued events."""
        for subscription in self.subscriptions:
            subscription.close()
        self.subscriptions.clear()
