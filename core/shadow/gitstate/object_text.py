"""The text by which a user decides on new commits and tags: all that the objects hold, and the diffs of commits.

A signature alone is named and not written out, if it has the form of one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from core.git.repository import GitFailed, GitRepository
from core.shadow.gitstate.raw_objects import (
    RawObject,
    Signed,
    decode_otherwise,
    decode_text,
    list_tags,
    parse_person,
    read_object,
)

_ARMOUR = re.compile(
    rb"-----BEGIN (?:PGP|SSH) SIGNATURE-----\n(?:Version: GnuPG[ \w.()/]{0,40}\n)?\n?(?:[A-Za-z0-9+/=]{1,80}\n)+"
    rb"-----END (?:PGP|SSH) SIGNATURE-----\n*\Z"
)
_SAFE = ("--no-color", "--no-show-signature", "--no-ext-diff", "--no-textconv", "--no-renames", "-m", "--first-parent")
_SIGNATURES = (b"gpgsig", b"gpgsig-sha256")


def render_tags(repository: GitRepository, oids: Iterable[str]) -> Iterator[str]:
    """Yield the text of each annotated tag among the objects, and of the tags that they are tags of."""
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
    """Yield the text of each commit with its diff."""
    for oid in oids:
        yield "\n".join((*_render_commit(read_object(repository, "commit", oid)), "", ""))
        show = ("log", "--no-walk", "--format=", *_SAFE)
        try:
            patch = repository.run(*show, "--patch", oid, seconds=20.0)
        except GitFailed:  # too much to show
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
    """Yield the author, and of the committer what is otherwise."""
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
        yield f"Header: {label} (a signature, which is not verified)"
        return
    first, *others = decode_text(value, encoding).split("\n")
    yield f"Header: {label} {first}".rstrip()
    yield from (f"Header:   {line}" for line in others)


def _render_message(message: bytes, encoding: str) -> Iterator[str]:
    text = message.rstrip(b"\n")
    yield from (f"    {line}" for line in decode_text(text, encoding).split("\n"))
    if other := decode_otherwise(text, encoding):
        yield f"  As {encoding} it reads:"
        yield from (f"    {line}" for line in other.split("\n"))


def _read_encoding(raw_object: RawObject) -> str:
    return raw_object.get(b"encoding").decode("ascii", "replace").strip()
