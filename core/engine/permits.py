"""What a session may: the rules and answers that hold, the way out to the network, and the log of their use."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from core.agent.way_out import WayOut
from core.engine.auditing import audit
from core.errors import StateError
from core.permissions.audit import Audit
from core.permissions.remembered import Remembered
from core.permissions.rules import Rule, of_kind, strictest
from core.protocol.events import AnyEvent
from core.sessions.private import place_of
from core.workspace.withheld import Kept, Withheld

if TYPE_CHECKING:
    from core.engine.runtime import SessionRuntime


class Permits:
    """Belongs to one session that is open."""

    def __init__(self, session: SessionRuntime) -> None:
        directory = session.directory.path
        self._session = session
        self.remembered = Remembered(session.workspace.root, keeps=place_of(directory) is None)
        self.audit = Audit(directory)
        self.way_out = WayOut(directory / "network", self.rules, self._heard)
        self._withheld = Withheld(session.workspace, session.shadow.ignore, self._may_read)
        self._reading: tuple[Rule, ...] = ()

    def rules(self) -> tuple[Rule, ...]:
        """Configured ones, and the patterns that the user typed for good. Raises `StateError`."""
        return (*self._session.settings.permissions.rules(), *self.remembered.rules())

    def withheld(self) -> Kept:
        """What a command that begins now must not read. Takes a while the first time, so it is for a thread."""
        reading = tuple(of_kind(self.rules(), "Read"))
        if reading != self._reading:
            self._reading = reading
            self._withheld.forget()
        return self._withheld.paths()

    def _may_read(self, path: str) -> bool | None:
        rule = strictest(rule for rule in self._reading if rule.matches(path))
        return None if rule is None else rule.choice == "allow"

    async def proxy(self) -> Path | None:
        """The socket of the way out: where the user can be asked about a host or has granted one, or probes
        send what they log."""
        if not (self._session.interactive or self.way_out.hosts() or self.way_out.collector):
            return None
        return await self.way_out.open()

    def note(self, event: AnyEvent) -> None:
        """What is of interest to the audit log goes there before it counts. Raises `StateError`."""
        audit(self.audit, event)

    def _heard(self, kind: str, data: dict[str, object]) -> None:
        try:
            self.audit.record(kind, data)
        except StateError as problem:
            self._session.complain(problem)

    async def close(self) -> None:
        await self.way_out.close()
        self.audit.close()
