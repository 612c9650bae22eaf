"""The hosts that commands of a session can reach, and the proxy that they are reached through.

Nothing is granted to begin with. A command that wants a host is refused, and the user is asked afterwards, with what
happened; a yes holds once, for the session, or for good. When a turn has read secrets and has also taken in what came
from the network, standing grants are suspended for its rest: whatever goes out then is asked about (SAFETY I8). Once
the model was given text of strangers, a rule alone lets nothing out to a host that is new in the session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from core.errors import StateError
from core.permissions.rules import PermissionRule, matches_host, parse_rule, select_rules
from core.sandbox.network.addresses import HostAndPort
from core.sandbox.network.proxy import LocalHandler, ProxiedConnection, Proxy
from core.shell.log_collector import is_ingest
from core.shell.outside.local_services import parse_head, serve_service

MAX_REFUSED = 20

RulesSource = Callable[[], tuple[PermissionRule, ...]]
ConnectionRecorder = Callable[[str, dict[str, object]], None]


def _record_nothing(_: str, __: dict[str, object]) -> None:
    """Ignore a connection: nobody keeps a record."""


class NetworkGrants:
    """The network grants of a session. `rules` returns the rules that hold now; `record` gets every connection."""

    def __init__(self, directory: Path, rules: RulesSource, record: ConnectionRecorder = _record_nothing) -> None:
        self._directory = directory
        self._rules = rules
        self._record = record
        self.collector: LocalHandler | None = None  # takes what the probes of a run send, while it goes on
        self._proxy: Proxy | None = None
        self._socket: Path | None = None
        self._session_hosts: set[str] = set()
        self._once_hosts: set[str] = set()
        self._session_services: set[str] = set()
        self._once_services: set[str] = set()
        self._serving: dict[asyncio.Task[object], str] = {}
        self._refused: dict[HostAndPort, None] = {}
        self._received: dict[str, None] = {}
        self._unanswered: dict[str, None] = {}
        self.list_foreign: Callable[[], Collection[str]] = tuple  # hosts and servers whose text the model was given
        self._turn = ""
        self._has_read_secrets = False
        self._has_received = False

    # who may be reached

    def list_hosts(self, *named_hosts: str) -> tuple[str, ...]:
        """Return the patterns of hosts that can be reached now, sorted. `named_hosts`: hosts for which the user's own
        configuration stands as a rule that allows would."""
        rules = select_rules(self._rules(), "WebFetch", "allow")
        configured_hosts: Iterable[str] = (*named_hosts, *(rule.pattern.lower() for rule in rules))
        if foreign := self.list_foreign():
            patterns = tuple(configured_hosts)
            configured_hosts = (host for host in foreign if any(matches_host(pattern, host) for pattern in patterns))
        standing = set() if self.is_suspended else {*self._session_hosts, *configured_hosts}
        return tuple(sorted(standing | self._once_hosts))

    def is_allowed(self, host: str, *, is_named: bool = False) -> bool:
        """True if a command may reach a host now. Only a grant for this very command outweighs a rule that asks.
        `is_named`: it is the program that asks, and the user's own configuration names the host for that."""
        stricter = {
            rule.choice for rule in select_rules(self._rules(), "WebFetch", "ask", "deny") if rule.matches(host)
        }
        allowed_patterns = self._once_hosts if stricter else self.list_hosts(*((host,) if is_named else ()))
        return "deny" not in stricter and any(matches_host(pattern, host) for pattern in allowed_patterns)

    def can_be_asked(self, host: str) -> bool:
        """True if the user may be asked about a host: no rule denies it."""
        return not any(rule.matches(host) for rule in select_rules(self._rules(), "WebFetch", "deny"))

    def grant(self, hosts: Iterable[str], *, for_session: bool) -> None:
        """Grant hosts until `revoke_once`, or as long as the session is open."""
        (self._session_hosts if for_session else self._once_hosts).update(hosts)

    def list_session_grants(self) -> tuple[str, ...]:
        """Return what was granted for the session, each as the rule that would grant it, sorted."""
        hosts = (f"WebFetch({host})" for host in self._session_hosts)
        return tuple(sorted((*hosts, *(f"Service({service})" for service in self._session_services))))

    def revoke(self, rule: str) -> bool:
        """Take back what was granted for the session, and end what it let through. Returns False if there is no such
        grant."""
        is_granted = rule in self.list_session_grants()
        self._session_hosts = {host for host in self._session_hosts if f"WebFetch({host})" != rule}
        self._session_services = {service for service in self._session_services if f"Service({service})" != rule}
        if is_granted:
            self.end_connections(rule)
        return is_granted

    def end_connections(self, text: str) -> None:
        """End the open connections of a grant that was taken back, `text` as a rule, where nothing else grants them."""
        self._record("grant.revoked", {"rule": text})
        rule = parse_rule(text, "allow")
        if rule.kind == "Service":
            services = self.list_services()
            for task, service in tuple(self._serving.items()):
                if rule.matches(service) and service not in services:
                    task.cancel()
                    self._record("service.ended", {"service": service})
        elif rule.kind == "WebFetch" and self._proxy is not None:
            for target in self._proxy.end_connections(lambda host: rule.matches(host) and not self.is_allowed(host)):
                self._record("network.ended", {"host": target.host, "port": target.port})

    def revoke_once(self) -> None:
        self._once_hosts.clear()
        self._once_services.clear()

    # services of the machine

    def list_services(self) -> tuple[str, ...]:
        """Return the services of the machine that can be reached now, sorted. Text of strangers ends what rules say."""
        configured_services: Iterable[str] = (rule.pattern for rule in select_rules(self._rules(), "Service", "allow"))
        standing = {*self._session_services, *(configured_services if not self.list_foreign() else ())}
        stricter = select_rules(self._rules(), "Service", "ask", "deny")
        allowed_services = {service for service in standing if not any(rule.matches(service) for rule in stricter)}
        once = filter(self.can_service_be_asked, self._once_services)
        return tuple(sorted((set() if self.is_suspended else allowed_services) | {*once}))

    def can_service_be_asked(self, service: str) -> bool:
        """True if the user may be asked about a service: no rule denies it."""
        return not any(rule.matches(service) for rule in select_rules(self._rules(), "Service", "deny"))

    def grant_services(self, services: Iterable[str], *, for_session: bool) -> None:
        """Grant services until `revoke_once`, or as long as the session is open."""
        (self._session_services if for_session else self._once_services).update(services)

    async def _serve_service(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        service = parse_head(head)
        if service not in self.list_services():
            self._record("service.refused", {"service": service})
            return
        task = asyncio.current_task()
        assert task is not None
        self._serving[task] = service
        try:
            received_bytes = await serve_service(service, reader, writer, self._record)
        finally:
            del self._serving[task]
        if received_bytes is None and len(self._unanswered) < MAX_REFUSED:
            self._unanswered[service] = None
        self._has_received = self._has_received or bool(received_bytes)

    # what happened

    @property
    def is_suspended(self) -> bool:
        """True if secrets were read and foreign bytes taken in, in this turn."""
        return self._has_read_secrets and self._has_received

    def needs_caution(self, hosts: Iterable[str]) -> bool:
        """True if an answer of before is not enough for one of the hosts: see `explain_caution`."""
        foreign = self.list_foreign()
        return self.is_suspended or bool(foreign and any(host not in foreign for host in hosts))

    def explain_caution(self) -> str:
        """Explain why a host is asked about although a rule may allow it; "" = there is no such reason."""
        if self.is_suspended:
            return "secrets were read and foreign data taken in during this turn"
        if foreign := tuple(self.list_foreign()):
            sources = ", ".join(foreign[:3]) + (" and others" if len(foreign) > 3 else "")
            return f"text from {sources} is in the conversation, and this host is new in it"
        return ""

    def begin_turn(self, turn: str) -> None:
        if turn != self._turn:
            self._turn, self._has_read_secrets, self._has_received = turn, False, False

    def record_secret_read(self) -> None:
        """Record that the model was given the content of a file that holds secrets."""
        self._has_read_secrets = True

    def record_received(self) -> None:
        """Record that the model was given foreign text."""
        self._has_received = True

    def take_received(self) -> tuple[str, ...]:
        """Return the hosts that sent something to a command since the last call."""
        hosts, self._received = tuple(self._received), {}
        return hosts

    def take_unanswered(self) -> tuple[str, ...]:
        """Return the services at which nobody answered since the last call: in the box a connection to one begins, and
        ends at once."""
        services, self._unanswered = tuple(self._unanswered), {}
        return services

    def take_refused(self) -> tuple[HostAndPort, ...]:
        """Return the targets that were refused since the last call."""
        targets, self._refused = tuple(self._refused), {}
        return targets

    def _on_refused(self, target: HostAndPort) -> None:
        self._record("network.refused", {"host": target.host, "port": target.port})
        if len(self._refused) < MAX_REFUSED:
            self._refused[target] = None

    def _on_passed(self, connection: ProxiedConnection) -> None:
        self._has_received = self._has_received or connection.received > 0
        if connection.received:
            self._received[connection.target.host] = None
        endpoint = {"host": connection.target.host, "port": connection.target.port, "address": connection.address}
        self._record("network.passed", endpoint | {"sent": connection.sent, "received": connection.received})

    # the proxy

    def _select_handler(self, head: bytes) -> LocalHandler | None:
        if parse_head(head):
            return self._serve_service
        return self.collector if is_ingest(head) else None

    async def open_proxy(self) -> Path | None:
        """Start the proxy at first use and return its socket; None: it can't be started, and there is no network."""
        if self._proxy is None:
            proxy = Proxy(
                self.is_allowed,
                on_refusal=self._on_refused,
                on_connection=self._on_passed,
                find_handler=self._select_handler,
            )
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
