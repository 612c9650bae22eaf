"""Addresses of pages, parsed strictly: the address that the user grants is exactly the one that is dialled.

Ambiguous ones are refused: with user names, backslashes, control characters, or hosts beyond ASCII.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, urljoin

from msgspec import Struct

from core.errors import WebFailed
from core.patterns import compile_lazily
from core.sandbox.addresses import HostAndPort, parse_host_and_port

MAX_LENGTH: Final = 4_000  # characters of an address
_PORTS: Final = {"http": 80, "https": 443}
_ADDRESS: Final = compile_lazily(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<host>[^/?#]*)(?P<rest>[^#]*)(?:#.*)?")
_HINT: Final = "Give http(s)://host/path."
_UNQUOTED: Final = "%/?:@!$&'()*+,;=~-._[]"  # allowed unquoted in a path and a query


class WebAddress(Struct, frozen=True):
    """The address of a page: `scheme` is http or https, `path` includes the query, in ASCII."""

    scheme: str
    target: HostAndPort
    path: str

    @property
    def host(self) -> str:
        """The host that permission rules and the user see."""
        return self.target.host

    @property
    def authority(self) -> str:
        """The host in a request: with the port unless it is the scheme's default."""
        text = str(self.target)
        return text.rpartition(":")[0] if self.target.port == _PORTS[self.scheme] else text

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.authority}"

    def __str__(self) -> str:
        return f"{self.origin}{self.path}"


def parse_address(text: str) -> WebAddress:
    """Parse an address such as `https://example.org/page`. Raises `WebFailed` with the code `bad_address`."""
    text = text.strip(" ")
    if len(text) > MAX_LENGTH:
        raise _refuse(f"it has more than {MAX_LENGTH} characters")
    if any(ord(char) <= 32 or ord(char) == 127 or char == "\\" for char in text):
        raise _refuse("it holds spaces, control characters or backslashes")
    match = _ADDRESS.fullmatch(text)
    if match is None or (scheme := match["scheme"].lower()) not in _PORTS:
        raise _refuse("it does not begin with http:// or https://")
    if "@" in match["host"]:
        raise _refuse("it contains a user name")
    try:
        target = parse_host_and_port(match["host"], _PORTS[scheme])
    except ValueError as problem:
        raise _refuse(_describe_host(match["host"], str(problem))) from None
    try:
        rest = quote(match["rest"], safe=_UNQUOTED)
    except UnicodeEncodeError:
        raise _refuse("it holds half of a character") from None
    return WebAddress(scheme, target, rest if rest.startswith("/") else f"/{rest}")


def join_address(base: WebAddress, reference: str) -> WebAddress:
    """Resolve a reference of a page or a redirect. Raises `WebFailed`."""
    reference = reference.strip().replace(" ", "%20")
    try:
        return parse_address(urljoin(str(base), reference))
    except ValueError:
        reason = "it is none"
    except WebFailed as problem:
        reason = problem.message.rpartition("used: ")[2].removesuffix(".")
    raise WebFailed(f"{base.host} points to an invalid address: {reason}.", hint=_HINT, code="bad_address")


def _describe_host(host: str, problem: str) -> str:
    if host.isascii():
        return problem.rstrip(".").lower()
    try:
        ascii_name = host.encode("idna").decode()
    except UnicodeError:
        return "its host is not a name"
    return f"its host is not in ASCII (it would be {ascii_name})"


def _refuse(reason: str) -> WebFailed:
    return WebFailed(f"This address can't be used: {reason}.", hint=_HINT, code="bad_address")
