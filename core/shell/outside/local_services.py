"""Services of the user's machine that commands may reach: a port on its loopback, or a socket that has a name.

The box has a loopback and sockets of its own. For each service that is granted when a command starts, the box listens
at the same port, or at a socket of the same name, and what comes there is passed to the session's proxy with the
service's name as a head. The grant is looked at again for each connection, which is then made to the real one: when it
was taken back, no new connection is.
"""

from __future__ import annotations

import asyncio
import os
import re
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from core.permissions.approval import find_port, is_service
from core.sandbox.box import BoxService, Tier
from core.sandbox.inside.messages import PROXY_PORT
from core.sandbox.network.proxy import close_writer, relay_streams

_HEAD: Final = re.compile(rb"AGENT-TUI-SERVICE (?P<name>[a-z0-9:-]{1,40})\r\n\r\n")
_DIAL_SECONDS: Final = 20.0
_LOOPBACK: Final = ("127.0.0.1", "::1")
_DISPLAY: Final = re.compile(r"(?:unix)?:(?P<number>\d{1,3})(?:\.\d+)?")
ONLY_T1: Final = "{} was not granted: the box of this machine ({}) leads to no service; T1 alone does."
NO_WAYLAND: Final = "wayland was not granted: its programs pass memory, not only bytes, and that does not leave a box."
NOT_THERE: Final = "{} was not granted: there is no such socket on the user's machine."
OWN_PORT: Final = f"localhost:{PROXY_PORT} was not granted: the box itself listens at this port."

RecordUse = Callable[[str, dict[str, object]], None]


def explain_unreachable(service: str, tier: Tier, environment: Mapping[str, str]) -> str:
    """Explain why a service can't be reached from a box of this tier, whoever grants it; "" = it can."""
    if tier is not Tier.NAMESPACES:
        return ONLY_T1.format(service, tier.value)
    if service == "wayland":
        return NO_WAYLAND
    if find_port(service):
        return OWN_PORT if find_port(service) == PROXY_PORT else ""
    return "" if find_socket(service, environment) is not None else NOT_THERE.format(service)


def find_socket(service: str, environment: Mapping[str, str]) -> Path | None:
    """Return the socket of a name on the user's machine; None: there is none."""
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
    """Build what the box has to offer for a service."""
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
    """Return the service that the head of a connection names; "" = it is no such head."""
    match = _HEAD.fullmatch(head)
    name = match["name"].decode() if match is not None else ""
    return name if is_service(name) else ""


async def serve_service(
    service: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, record: RecordUse
) -> int | None:
    """Connect a client in a box to a service, until one of them ends. Returns how many bytes came back; None: nobody
    answered there."""
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
