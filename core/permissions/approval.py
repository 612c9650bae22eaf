"""The permissions that a command requests, the exact subject of an approval, and its answer.

`network`: the hosts in the command's URLs, for this one command; any other host is asked about on first use.
`git_write`: the command's changes in git's directory are retained with its other changes, for the review. A service is
a port of the user's machine (`localhost:5432`) or one of its sockets by name (`docker`). `all`: the command runs on the
user's machine itself, outside of the box.

The question is built from an `Approval`, and the code that starts the command builds a second one from the final
arguments and compares them, so that exactly the approved command runs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from core.patterns import compile_lazily

SOCKETS: Final = ("docker", "ssh-agent", "x11", "wayland")
_IN_BOX: Final = ("network", "git_write")
_SERVICE: Final = compile_lazily(r"localhost:[1-9][0-9]{0,4}|" + "|".join(SOCKETS))
MAX_PORT: Final = 65_535
MAX_HOSTS: Final = 20
MAX_HOST_CHARS: Final = 100  # of all of them together, since the question shows them in full
_ADDRESS: Final = compile_lazily(
    r"(?i)\bhttps?://(?:[^\s/@'\"]*@)?(?P<host>[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?)(?=[:/?#\s'\"`);|&<>]|$)"
)
RequestedPermission = str


class Approved(Struct, frozen=True):
    """The call may run as it was asked about."""


class Refused(Struct, frozen=True):
    """The call must not run. `reason`: a sentence for the model."""

    reason: str


class Escalate(Struct, frozen=True):
    """The command may run outside of the box. `is_ruled`: the user's rule says so, and nobody looked at it now."""

    is_ruled: bool = False


ApprovalAnswer = Approved | Refused | Escalate


class Approval(Struct, frozen=True, kw_only=True):
    """The subject of an approval. `environment`: names of the variables that commands have set or removed in this
    session; `values`: the digests of their values, "" = removed. `network`: hosts that can be reached. `permissions`:
    grants besides running. Paths are relative to the workspace."""

    subject: str
    directory: str = "."
    environment: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    tier: str = ""
    mode: str = ""
    network: tuple[str, ...] = ()
    permissions: tuple[str, ...] = ()

    def compute_digest(self) -> str:
        """Return the SHA-256 of the record, in hex. A lone surrogate in the text counts as itself."""
        record = msgspec.structs.asdict(self) | {"subject": self.subject.encode("utf-8", "surrogatepass").hex()}
        for name in ("values", "permissions"):  # answers that were saved without them remain valid
            if not record[name]:
                del record[name]
        return hashlib.sha256(msgspec.json.encode(record)).hexdigest()

    def has_same_ground(self, other: Approval) -> bool:
        """Return True if the other record is the same except for the reachable hosts."""
        return replace(self, network=()) == replace(other, network=())


def hash_value(value: str | None) -> str:
    """Return the SHA-256 of a variable's value, in hex; "" for None: it was removed."""
    return "" if value is None else hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()


def list_requested(requests: Sequence[object]) -> tuple[str, ...]:
    """Return the known permissions among `requests`, without duplicates, the most far-reaching last."""
    return tuple(permission for permission in (*_IN_BOX, *list_services(requests), "all") if permission in requests)


def check_requested(requests: Sequence[str]) -> None:
    """Raise `ValueError` for an unknown permission."""
    permissions = (*_IN_BOX, "all")
    for request in requests:
        if request not in permissions and not is_service(request):
            words = ", ".join((*permissions, "localhost:PORT (1 to 65535)", *SOCKETS))
            raise ValueError(f"{request[:100]!r} is not a permission; valid: {words}")


def list_services(requests: Sequence[object]) -> tuple[str, ...]:
    """Return the services among `requests`, without duplicates, sorted."""
    return tuple(sorted({request for request in requests if isinstance(request, str) and is_service(request)}))


def is_service(name: str) -> bool:
    """True if a name is that of a service: `localhost:5432`, or a known socket."""
    return _SERVICE.fullmatch(name) is not None and find_port(name) <= MAX_PORT


def find_port(service: str) -> int:
    """Return the port of a service, 0 for a socket."""
    return int(service.partition(":")[2] or 0)


def find_named_hosts(command: str) -> tuple[str, ...]:
    """Return the first hosts of the URLs in a command's text, without duplicates, as many as fit on a line."""
    hosts = dict.fromkeys(match["host"].lower() for match in _ADDRESS.finditer(command))
    first_hosts, size = list[str](), 0
    for host in hosts:
        size += len(host) + 2
        if size > MAX_HOST_CHARS or len(first_hosts) == MAX_HOSTS:
            break
        first_hosts.append(host)
    return tuple(first_hosts)
