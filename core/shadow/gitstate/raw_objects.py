"""Commits and annotated tags as they are stored: every header with its text, and the message, byte for byte.

Git draws nothing of what it does not know, or can't read in the encoding that the object names. Whoever decides by an
object has to see all of it, so it is read here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta, timezone

from msgspec import Struct

from core.git.repository import GitRepository

_PERSON = re.compile(rb"(?P<name>[^<>\n\0]*?) ?<(?P<email>[^<>\n\0]*)> (?P<seconds>\d{1,12}) (?P<zone>[+-]\d{4})\Z")
_ASCII = bytes(range(0x20, 0x7F))
_MAX_TAGS = 1_000  # tags of tags


class RawObject(Struct, frozen=True):
    """An object of text. `headers`: names with their values in order, continued lines joined by newlines."""

    oid: str
    headers: tuple[tuple[bytes, bytes], ...]
    message: bytes

    def get(self, name: bytes) -> bytes:
        """Return the value of the first header of that name; empty: there is none."""
        return next((value for header_name, value in self.headers if header_name == name), b"")


class Signed(Struct, frozen=True):
    """A person with a date, as a header names them; None stands for a header that is of another form."""

    name: bytes
    email: bytes
    date: str


def read_object(repository: GitRepository, kind: str, oid: str) -> RawObject:
    """Read a `commit` or `tag`. Raises `GitFailed`."""
    header, _, message = repository.run("cat-file", kind, oid).partition(b"\n\n")
    headers = list[tuple[bytes, bytes]]()
    for line in header.split(b"\n"):
        if line.startswith(b" ") and headers:
            headers[-1] = (headers[-1][0], headers[-1][1] + b"\n" + line[1:])
        else:
            name, _, value = line.partition(b" ")
            headers.append((name, value))
    return RawObject(oid, tuple(headers), message)


def list_tags(repository: GitRepository, oids: Iterable[str]) -> list[RawObject]:
    """Return the annotated tags among some objects, each followed by the tags that it is a tag of."""
    waiting = list(dict.fromkeys(oids))
    tags_by_oid = dict[str, RawObject]()
    while waiting and len(tags_by_oid) < _MAX_TAGS:
        request = "".join(f"{oid}\n" for oid in waiting).encode()
        kinds = repository.run("cat-file", "--batch-check=%(objectname) %(objecttype)", stdin=request).decode()
        tags = [oid for oid, _, kind in (line.partition(" ") for line in kinds.splitlines()) if kind == "tag"]
        fresh = {oid: read_object(repository, "tag", oid) for oid in tags if oid not in tags_by_oid}
        tags_by_oid |= fresh
        waiting = [tag.get(b"object").decode("ascii", "replace") for tag in fresh.values()]
    return list(tags_by_oid.values())


def parse_person(value: bytes) -> Signed | None:
    """Parse the value of `author`, `committer` or `tagger`; the date is in git's own form."""
    match = _PERSON.match(value)
    if match is None:
        return None
    return Signed(match["name"], match["email"], _format_date(int(match["seconds"]), match["zone"].decode()))


def _format_date(seconds: int, zone: str) -> str:
    offset = timedelta(hours=int(zone[1:3]), minutes=int(zone[3:]))
    try:
        moment = datetime.fromtimestamp(seconds, UTC).astimezone(timezone(-offset if zone[0] == "-" else offset))
    except (OverflowError, ValueError, OSError):
        return f"{seconds} {zone}"
    return f"{moment:%a %b} {moment.day} {moment:%H:%M:%S %Y} {zone}"


def decode_text(data: bytes, encoding: str) -> str:
    """Decode text as the encoding says, "" being UTF-8; where Python does not know it, or it is none that ASCII stays
    itself in, each byte as the character of its number."""
    try:
        keeps_ascii = _ASCII.decode(encoding or "utf-8") == _ASCII.decode("ascii")
        return data.decode(encoding or "utf-8", "backslashreplace") if keeps_ascii else data.decode("latin-1")
    except (LookupError, ValueError):
        return data.decode("latin-1")


def decode_otherwise(data: bytes, encoding: str) -> str:
    """Return what a reader that believes in the encoding would see where `decode_text` doesn't; "" = the same."""
    try:
        text = data.decode(encoding or "utf-8", "replace")
    except (LookupError, ValueError):
        return ""
    return "" if text in {decode_text(data, encoding), data.decode("utf-8", "replace")} else text
