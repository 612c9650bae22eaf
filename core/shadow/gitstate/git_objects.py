"""Commits and annotated tags as text for the user's decision: every header, the message, and the diffs of commits.

Git does not display headers that it does not know or cannot decode in the encoding that the object names. A user who
decides on an object has to see all of it, so the objects are parsed here. A well-formed signature is only mentioned.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta, timezone

from msgspec import Struct

from core.git.repository import GitFailed, GitRepository
from core.patterns import compile_lazily

_PERSON = compile_lazily(rb"(?P<name>[^<>\n\0]*?) ?<(?P<email>[^<>\n\0]*)> (?P<seconds>\d{1,12}) (?P<zone>[+-]\d{4})\Z")
_ASCII = bytes(range(0x20, 0x7F))
_MAX_TAGS = 1_000  # nested tags
_ARMOUR = compile_lazily(
    rb"-----BEGIN (?:PGP|SSH) SIGNATURE-----\n(?:Version: GnuPG[ \w.()/]{0,40}\n)?\n?(?:[A-Za-z0-9+/=]{1,80}\n)+"
    rb"-----END (?:PGP|SSH) SIGNATURE-----\n*\Z"
)
_SAFE = ("--no-color", "--no-show-signature", "--no-ext-diff", "--no-textconv", "--no-renames", "-m", "--first-parent")
_SIGNATURES = (b"gpgsig", b"gpgsig-sha256")


class RawObject(Struct, frozen=True):
    """A commit or tag. `headers`: names with their values in order, continuation lines joined by newlines."""

    oid: str
    headers: tuple[tuple[bytes, bytes], ...]
    message: bytes

    def get(self, name: bytes) -> bytes:
        """Return the value of the first header with that name; b"" if there is none."""
        return next((value for header_name, value in self.headers if header_name == name), b"")


class Signed(Struct, frozen=True):
    """A person with a date, from a header."""

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
    """Return the annotated tags among some objects, followed by the tags that they point to."""
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
    """Parse the value of `author`, `committer` or `tagger`; the date has git's own format. None if it is malformed."""
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
    """Decode text in `encoding`, "" = UTF-8. Text in an encoding that Python does not know, or that is no superset of
    ASCII, is decoded as Latin-1."""
    try:
        keeps_ascii = _ASCII.decode(encoding or "utf-8") == _ASCII.decode("ascii")
        return data.decode(encoding or "utf-8", "backslashreplace") if keeps_ascii else data.decode("latin-1")
    except (LookupError, ValueError):
        return data.decode("latin-1")


def decode_with_replacement(data: bytes, encoding: str) -> str:
    """Return the text as a reader that trusts the encoding displays it; "" if that equals `decode_text`."""
    try:
        text = data.decode(encoding or "utf-8", "replace")
    except (LookupError, ValueError):
        return ""
    return "" if text in {decode_text(data, encoding), data.decode("utf-8", "replace")} else text


def render_tags(repository: GitRepository, oids: Iterable[str]) -> Iterator[str]:
    """Yield the texts of the annotated tags among the objects, and of the tags that they point to."""
    for tag in list_tags(repository, oids):
        encoding = _read_encoding(tag)
        lines = [f"tag {tag.oid}"]
        for name, value in tag.headers:
            person = parse_person(value) if name == b"tagger" else None
            if person is not None:
                lines += [f"Tagger: {_format_person(person, encoding)}", f"Date:   {person.date}"]
            else:
                lines += _render_header(name, value, encoding)
        yield "\n".join((*lines, "", *_render_message(tag.message, encoding), "", ""))


def render_commits(repository: GitRepository, oids: Iterable[str]) -> Iterator[str]:
    """Yield the texts of commits with their diffs."""
    for oid in oids:
        yield "\n".join((*_render_commit(read_object(repository, "commit", oid)), "", ""))
        show = ("log", "--no-walk", "--format=", *_SAFE)
        try:
            patch = repository.run(*show, "--patch", oid, seconds=20.0)
        except GitFailed:  # too large to show
            patch = repository.run(*show, "--stat=120", oid, seconds=20.0)
        yield patch.decode("utf-8", "replace") + ("\n" if patch else "")


def _render_commit(commit: RawObject) -> Iterator[str]:
    encoding = _read_encoding(commit)
    yield f"commit {commit.oid}"
    rest, seen_names = list[tuple[bytes, bytes]](), set[bytes]()
    for name, value in commit.headers:
        is_plain = name in {b"tree", b"author", b"committer"} and name not in seen_names
        is_parent = name == b"parent" and seen_names <= {b"tree"}
        seen_names |= set() if is_parent else {name}
        rest += [] if is_plain or is_parent else [(name, value)]
    parents = [value for name, value in commit.headers if name == b"parent" and (name, value) not in rest]
    if len(parents) > 1:
        yield f"Merge: {' '.join(parent[:10].decode('ascii', 'replace') for parent in parents)}"
    yield from _render_persons(commit, encoding)
    for name, value in rest:
        yield from _render_header(name, value, encoding)
    yield ""
    yield from _render_message(commit.message, encoding)


def _render_persons(commit: RawObject, encoding: str) -> Iterator[str]:
    """Yield the author, and the committer where it differs."""
    author, committer = (parse_person(commit.get(name)) for name in (b"author", b"committer"))
    if author is None or committer is None:
        yield from (f"Author: {line}" for line in decode_text(commit.get(b"author"), encoding).split("\n"))
        yield from (f"Committer: {line}" for line in decode_text(commit.get(b"committer"), encoding).split("\n"))
        return
    yield f"Author: {_format_person(author, encoding)}"
    yield f"Date:   {author.date}"
    if (author.name, author.email) != (committer.name, committer.email):
        yield f"Committer: {_format_person(committer, encoding)}"
    if author.date != committer.date:
        yield f"Committed: {committer.date}"


def _format_person(person: Signed, encoding: str) -> str:
    return f"{decode_text(person.name, encoding)} <{decode_text(person.email, encoding)}>"


def _render_header(name: bytes, value: bytes, encoding: str) -> Iterator[str]:
    label = decode_text(name, encoding)
    if name in _SIGNATURES and _ARMOUR.match(value):
        yield f"Header: {label} (a signature, not verified)"
        return
    first, *others = decode_text(value, encoding).split("\n")
    yield f"Header: {label} {first}".rstrip()
    yield from (f"Header:   {line}" for line in others)


def _render_message(message: bytes, encoding: str) -> Iterator[str]:
    text = message.rstrip(b"\n")
    yield from (f"    {line}" for line in decode_text(text, encoding).split("\n"))
    if other := decode_with_replacement(text, encoding):
        yield f"  Read as {encoding}:"
        yield from (f"    {line}" for line in other.split("\n"))


def _read_encoding(raw_object: RawObject) -> str:
    return raw_object.get(b"encoding").decode("ascii", "replace").strip()
