"""The hosts that commands of a session can reach, and the proxy that they are reached through.

Nothing is granted to begin with. A command that wants a host is refused, and the user is asked afterwards, with what
happened; a yes holds once, for the session, or for good. When a turn has read secrets and has also taken in what came
from the network, standing grants are suspended for its rest: whatever goes out then is asked about (SAFETY I8).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from core.agent.collector import is_ingest
from core.errors import StateError
from core.permissions.rules import Rule, host_matches, of_kind
from core.sandbox.addresses import Target
from core.sandbox.proxy import Own, Passed, Proxy

MAX_REFUSED = 20

Rules = Callable[[], tuple[Rule, ...]]
Heard = Callable[[str, dict[str, object]], None]


def _nobody(_: str, __: dict[str, object]) -> None:
    """Who keeps no record."""


class WayOut:
    """`rules` gives the rules that hold now; `record` is told of every connection, refused or ended."""

    def __init__(self, directory: Path, rules: Rules, record: Heard = _nobody) -> None:
        self._directory = directory
        self._rules = rules
        self._record = record
        self.collector: Own | None = None  # takes what the probes of a run send, while it goes on
        self._proxy: Proxy | None = None
        self._socket: Path | None = None
        self._session: set[str] = set()
        self._once: set[str] = set()
        self._refused: dict[Target, None] = {}
        self._turn = ""
        self._read_secrets = False
        self._took_in = False

    # who may be reached

    def hosts(self) -> tuple[str, ...]:
        """The patterns of hosts that can be reached now, sorted."""
        standing = set() if self.suspended else {*self._session, *self._configured()}
        return tuple(sorted(standing | self._once))

    def _configured(self) -> Iterable[str]:
        return (rule.pattern.lower() for rule in of_kind(self._rules(), "WebFetch", "allow"))

    def allows(self, host: str) -> bool:
        """Whether a command may reach a host now; a rule that refuses or asks is stronger than any grant but one for
        this one command."""
        stricter = {rule.choice for rule in of_kind(self._rules(), "WebFetch", "ask", "deny") if rule.matches(host)}
        granted = self._once if stricter else self.hosts()
        return "deny" not in stricter and any(host_matches(pattern, host) for pattern in granted)

    def may_be_asked(self, host: str) -> bool:
        return not any(rule.matches(host) for rule in of_kind(self._rules(), "WebFetch", "deny"))

    def grant(self, hosts: Iterable[str], *, for_session: bool) -> None:
        """Until `end_once`, or as long as the session is open."""
        (self._session if for_session else self._once).update(hosts)

    def end_once(self) -> None:
        self._once.clear()

    # what happened

    @property
    def suspended(self) -> bool:
        """Whether secrets were read and foreign bytes taken in, in this turn."""
        return self._read_secrets and self._took_in

    def begin_turn(self, turn: str) -> None:
        if turn != self._turn:
            self._turn, self._read_secrets, self._took_in = turn, False, False

    def read_secret(self) -> None:
        """The model was given the content of a file that holds secrets."""
        self._read_secrets = True

    def take_refused(self) -> tuple[Target, ...]:
        """What was refused since this was asked last."""
        found, self._refused = tuple(self._refused), {}
        return found

    def _on_refused(self, target: Target) -> None:
        self._record("network.refused", {"host": target.host, "port": target.port})
        if len(self._refused) < MAX_REFUSED:
            self._refused[target] = None

    def _on_passed(self, passed: Passed) -> None:
        self._took_in = self._took_in or passed.received > 0
        self._record(
            "network.passed",
            {
                "host": passed.target.host,
                "port": passed.target.port,
                "address": passed.address,
                "sent": passed.sent,
                "received": passed.received,
            },
        )

    # the proxy

    def _ours(self, head: bytes) -> Own | None:
        return self.collector if is_ingest(head) else None

    async def open(self) -> Path | None:
        """The socket of the proxy, started at first use; None: it can't be, and there is no network then."""
        if self._proxy is None:
            proxy = Proxy(self.allows, refused=self._on_refused, passed=self._on_passed, own=self._ours)
            try:
                self._socket = await proxy.start(self._directory)
            except (OSError, StateError):
                return None
            self._proxy = proxy
        return self._socket

    async def close(self) -> None:
        proxy, self._proxy = self._proxy, None
        if proxy is not None:
            await proxy.close()
