"""The hosts and local services that commands of a session can reach, and the proxy that leads there.

Nothing is granted to begin with. A command that wants a host is refused, and the user is asked afterwards, with the
result; an approval holds once, for the session, or permanently. When a turn has read secrets and has also received data
from the network, standing grants are suspended for its rest, and every host is asked about. Once the model has read
text of strangers, a rule alone lets nothing out to a host that is new in the session.

A service is a port on the loopback of the user's machine, or a socket that has a name. For each service that is granted
when a command starts, the box listens at the same port, or at a socket of the same name, and passes connections to the
session's proxy, with the service's name as a head. The grant is checked for every connection, so a revoked one blocks
new connections.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Final

from core.errors import StateError
from core.patterns import compile_lazily
from core.permissions.approval import find_port, is_service
from core.permissions.rules import PermissionRule, matches_host, parse_rule, select_rules
from core.sandbox.addresses import HostAndPort
from core.sandbox.box import BoxService, Tier
from core.sandbox.inside.messages import PROXY_PORT
from core.sandbox.proxy import InnerHosts, LocalHandler, ProxiedConnection, Proxy, close_writer, relay_streams
from core.shell.log_collector import is_ingest

_HEAD: Final = compile_lazily(rb"AGENT-TUI-SERVICE (?P<name>[a-z0-9:-]{1,40})\r\n\r\n")
_DIAL_SECONDS: Final = 20.0
_LOOPBACK: Final = ("127.0.0.1", "::1")
_DISPLAY: Final = compile_lazily(r"(?:unix)?:(?P<number>\d{1,3})(?:\.\d+)?")
ONLY_T1: Final = "{} was not granted: this machine's sandbox ({}) can't reach services; only T1 can."
NO_WAYLAND: Final = "wayland was not granted: its programs share memory, not only bytes, which can't leave a sandbox."
NOT_THERE: Final = "{} was not granted: the user's machine has no such socket."
OWN_PORT: Final = f"localhost:{PROXY_PORT} was not granted: the sandbox itself listens on this port."
MAX_REFUSED = 20
RulesSource = Callable[[], tuple[PermissionRule, ...]]
ConnectionRecorder = Callable[[str, dict[str, object]], None]


def _record_nothing(_: str, __: dict[str, object]) -> None:
    """Discard a record."""


class NetworkGrants:
    """The network grants of a session. `rules` returns the rules that hold now; `record` gets every connection."""

    def __init__(
        self,
        directory: Path,
        rules: RulesSource,
        record: ConnectionRecorder = _record_nothing,
        is_private_host: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._directory = directory
        self._rules = rules
        self._record = record
        self.is_private_host = is_private_host  # by the user's own settings
        self.login = ""  # what the proxy expects of its clients, see `Proxy`
        self.collector: LocalHandler | None = None  # receives the records of probes during a run
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
        self._inner: dict[str, None] = {}
        self.list_foreign: Callable[[], Collection[str]] = tuple  # hosts and servers whose text the model has read
        self._turn = ""
        self._has_read_secrets = False
        self._has_received = False

    # hosts

    def list_hosts(self, *named_hosts: str) -> tuple[str, ...]:
        """Return the patterns of hosts that can be reached now, sorted. `named_hosts`: hosts in the user's own
        configuration, which counts as an allowing rule."""
        rules = select_rules(self._rules(), "WebFetch", "allow")
        configured_hosts: Iterable[str] = (*named_hosts, *(rule.pattern.lower() for rule in rules))
        if foreign := self.list_foreign():
            patterns = tuple(configured_hosts)
            configured_hosts = (host for host in foreign if any(matches_host(pattern, host) for pattern in patterns))
        standing = set() if self.is_suspended else {*self._session_hosts, *configured_hosts}
        return tuple(sorted(standing | self._once_hosts))

    def is_allowed(self, host: str, *, is_named: bool = False) -> bool:
        """True if a command may reach a host now. Only a grant for this very command overrides a rule that asks.
        `is_named`: the request comes from this program, for a host in the user's own configuration."""
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
        """Return the grants of the session as equivalent rules, sorted."""
        hosts = (f"WebFetch({host})" for host in self._session_hosts)
        return tuple(sorted((*hosts, *(f"Service({service})" for service in self._session_services))))

    def revoke(self, rule: str) -> bool:
        """Revoke a grant of the session, and end its connections. Returns False if there is no such grant."""
        is_granted = rule in self.list_session_grants()
        self._session_hosts = {host for host in self._session_hosts if f"WebFetch({host})" != rule}
        self._session_services = {service for service in self._session_services if f"Service({service})" != rule}
        if is_granted:
            self.end_connections(rule)
        return is_granted

    def end_connections(self, text: str) -> None:
        """End the open connections of a revoked grant (the rule `text`), unless another grant allows them."""
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
        """Return the services of the machine that can be reached now, sorted. Text of strangers suspends rules."""
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

    # records

    @property
    def is_suspended(self) -> bool:
        """True if secrets were read and foreign data received in this turn."""
        return self._has_read_secrets and self._has_received

    def needs_caution(self, hosts: Iterable[str]) -> bool:
        """True if an earlier answer does not suffice for one of the hosts: see `explain_caution`."""
        foreign = self.list_foreign()
        return self.is_suspended or bool(foreign and any(host not in foreign for host in hosts))

    def name_foreign(self) -> str:
        """Return the first sources of foreign text for use in a sentence, "" = there are none."""
        foreign = tuple(self.list_foreign())
        return ", ".join(foreign[:3]) + (" and others" if len(foreign) > 3 else "")

    def explain_caution(self) -> str | None:
        """Explain why a host is asked about although a rule may allow it; None: there is no reason."""
        if self.is_suspended:
            return "this turn has read secrets and untrusted data"
        if foreign := self.name_foreign():
            return f"the conversation holds text from {foreign}, and this host is new in it"
        return None

    def begin_turn(self, turn: str) -> None:
        if turn != self._turn:
            self._turn, self._has_read_secrets, self._has_received = turn, False, False

    def record_secret_read(self) -> None:
        """Record that the model has read a file with secrets."""
        self._has_read_secrets = True

    def record_received(self) -> None:
        """Record that the model has read foreign text."""
        self._has_received = True

    def pop_received(self) -> tuple[str, ...]:
        """Return the hosts that sent data to a command since the last call."""
        hosts, self._received = tuple(self._received), {}
        return hosts

    def pop_unanswered(self) -> tuple[str, ...]:
        """Return the services that did not answer since the last call. In the box a connection to one succeeds, and is
        closed immediately."""
        services, self._unanswered = tuple(self._unanswered), {}
        return services

    def pop_refused(self) -> tuple[HostAndPort, ...]:
        """Return the targets that were refused since the last call."""
        targets, self._refused = tuple(self._refused), {}
        return targets

    def pop_inner(self) -> tuple[str, ...]:
        """Return why granted hosts were refused since the last call: they are not on the public network."""
        reasons, self._inner = tuple(self._inner), {}
        return reasons

    def _record_inner(self, target: HostAndPort, reason: str) -> None:
        self._record("network.refused", {"host": target.host, "port": target.port, "reason": reason})
        if len(self._inner) < MAX_REFUSED:
            self._inner[reason] = None

    def _record_refusal(self, target: HostAndPort) -> None:
        self._record("network.refused", {"host": target.host, "port": target.port})
        if len(self._refused) < MAX_REFUSED:
            self._refused[target] = None

    def _record_connection(self, connection: ProxiedConnection) -> None:
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
                on_refusal=self._record_refusal,
                on_connection=self._record_connection,
                find_handler=self._select_handler,
            )
            proxy.inner = InnerHosts(self.is_private_host, self._record_inner)
            proxy.login = self.login
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


def explain_unreachable(service: str, tier: Tier, environment: Mapping[str, str]) -> str | None:
    """Explain why a service can't be reached from a box of this tier, even if granted; None: it can."""
    if not tier.uses_proxy:
        return ONLY_T1.format(service, tier.value)
    if service == "wayland":
        return NO_WAYLAND
    if find_port(service):
        return OWN_PORT if find_port(service) == PROXY_PORT else None
    return None if find_socket(service, environment) is not None else NOT_THERE.format(service)


def find_socket(service: str, environment: Mapping[str, str]) -> Path | None:
    """Return the path of a named socket on the user's machine; None: there is none."""
    socket_path = ""
    if service == "docker":
        host = environment.get("DOCKER_HOST", "unix:///var/run/docker.sock")
        socket_path = host.removeprefix("unix://") if host.startswith("unix://") else ""
    elif service == "ssh-agent":
        socket_path = environment.get("SSH_AUTH_SOCK", "")
    elif service == "x11" and (display := _DISPLAY.fullmatch(environment.get("DISPLAY", ""))):
        socket_path = f"/tmp/.X11-unix/X{display['number']}"
    path = Path(socket_path)
    try:
        is_socket = bool(socket_path) and path.is_absolute() and stat.S_ISSOCK(path.stat().st_mode)
    except OSError:
        return None
    return path if is_socket else None


def build_service(service: str) -> BoxService:
    """Build the box's side of a service."""
    head = b"AGENT-TUI-SERVICE %s\r\n\r\n" % service.encode()
    if port := find_port(service):
        return BoxService(head=head, port=port)
    path, environment = {
        "docker": ("/run/docker.sock", {"DOCKER_HOST": "unix:///run/docker.sock"}),
        "ssh-agent": ("/run/ssh-agent.sock", {"SSH_AUTH_SOCK": "/run/ssh-agent.sock"}),
        "x11": ("/tmp/.X11-unix/X0", {"DISPLAY": ":0"}),
    }[service]
    return BoxService(head=head, path=path, env=environment)


def parse_head(head: bytes) -> str:
    """Return the service in the head of a connection; "" = it is another kind of head."""
    match = _HEAD.fullmatch(head)
    name = match["name"].decode() if match is not None else ""
    return name if is_service(name) else ""


async def serve_service(
    service: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, record: ConnectionRecorder
) -> int | None:
    """Connect a client in a box to a service, until one of them closes. Returns the number of received bytes; None: the
    service did not answer."""
    streams = await _dial(service)
    if streams is None:
        record("service.failed", {"service": service})
        return None
    their_reader, their_writer = streams
    try:
        sent_bytes, received_bytes = await relay_streams(reader, writer, their_reader, their_writer)
    finally:
        await close_writer(their_writer)
    record("service.passed", {"service": service, "sent": sent_bytes, "received": received_bytes})
    return received_bytes


async def _dial(service: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
    port, socket_path = find_port(service), find_socket(service, os.environ)
    tries = [asyncio.open_connection(host, port) for host in _LOOPBACK] if port else []
    if socket_path is not None:
        tries = [asyncio.open_unix_connection(str(socket_path))]
    streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
    for attempt in tries:
        if streams is not None:
            attempt.close()
            continue
        try:
            async with asyncio.timeout(_DIAL_SECONDS):
                streams = await attempt
        except (OSError, TimeoutError):
            continue
    return streams
