"""Permissions that a command asks for beside running: what there is to ask for, and which hosts a command names.

`network`: the hosts that the command names in its addresses, for this one command; any other host is asked about when
the command wants it. `git_write`: what it does to git's directory is kept with its other changes, for the review.
A service is a port of the user's machine (`localhost:5432`) or one of its sockets by name (`docker`). `all`: it runs on
the user's machine itself, outside of the box.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

SOCKETS: Final = ("docker", "ssh-agent", "x11", "wayland")
_IN_BOX: Final = ("network", "git_write")
_SERVICE: Final = re.compile(r"localhost:[1-9][0-9]{0,4}|" + "|".join(SOCKETS))
MAX_PORT: Final = 65_535
MAX_HOSTS: Final = 20
MAX_HOST_CHARS: Final = 100  # of all of them together: what is asked about stands whole in the question
_ADDRESS: Final = re.compile(
    r"(?i)\bhttps?://(?:[^\s/@'\"]*@)?(?P<host>[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?)(?=[:/?#\s'\"`);|&<>]|$)"
)

RequestedPermission = str


def list_requested(requests: Sequence[object]) -> tuple[str, ...]:
    """Return what is asked for of what there is, each once, in the order of how far it leads."""
    return tuple(permission for permission in (*_IN_BOX, *list_services(requests), "all") if permission in requests)


def check_requested(requests: Sequence[str]) -> None:
    """Raise `ValueError` for what there is not to ask for."""
    permissions = (*_IN_BOX, "all")
    for request in requests:
        if request not in permissions and not is_service(request):
            words = ", ".join((*permissions, "localhost:PORT (1 to 65535)", *SOCKETS))
            raise ValueError(f"{request[:100]!r} is no permission; there are {words}")


def list_services(requests: Sequence[object]) -> tuple[str, ...]:
    """Return the services among what is asked for, each once, sorted."""
    return tuple(sorted({request for request in requests if isinstance(request, str) and is_service(request)}))


def is_service(name: str) -> bool:
    """True if a name is that of a service: `localhost:5432`, or a socket that is known by name."""
    return _SERVICE.fullmatch(name) is not None and find_port(name) <= MAX_PORT


def find_port(service: str) -> int:
    """Return the port of a service, 0 for a socket."""
    return int(service.partition(":")[2] or 0)


def find_named_hosts(command: str) -> tuple[str, ...]:
    """Return the first hosts of the web addresses in a command's text, each once, as many as a line takes."""
    hosts = dict.fromkeys(match["host"].lower() for match in _ADDRESS.finditer(command))
    first_hosts, size = list[str](), 0
    for host in hosts:
        size += len(host) + 2
        if size > MAX_HOST_CHARS or len(first_hosts) == MAX_HOSTS:
            break
        first_hosts.append(host)
    return tuple(first_hosts)
