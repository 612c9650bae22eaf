"""Which settings of a repository and of the user git is run with: those that only say how to compare files.

Settings that name a program, a file of the project or another place are not switched off one by one: nothing is taken
over but what stands in these tables, each value in one of its known forms.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

Pairs = list[tuple[str, str | None]]

_FLAGS: Final = frozenset(
    {
        *("core.filemode", "core.ignorecase", "core.symlinks", "core.trustctime", "core.precomposeunicode"),
        *("core.sparsecheckout", "core.sparsecheckoutcone", "index.sparse"),
    }
)
_WORDS: Final = {
    "core.autocrlf": {"true", "false", "input"},
    "core.eol": {"lf", "crlf", "native"},
    "core.checkstat": {"default", "minimal"},
    "extensions.objectformat": {"sha1", "sha256"},
    "extensions.refstorage": {"files", "reftable"},
}
_TRUE, _FALSE = {"true", "yes", "on", "1"}, {"false", "no", "off", "0", ""}
_USERS_FILES: Final = ("core.excludesfile", "core.attributesfile")


def read_pairs(listed: bytes) -> Pairs:
    """What `git config --list --null` printed: names (section and key in lower case) and values, the last one counts;
    None: the name stands without a value."""
    pairs: Pairs = []
    for each in listed.decode("utf-8", "surrogateescape").split("\0")[:-1]:
        name, has_value, value = each.partition("\n")
        pairs.append((name, value if has_value else None))
    return pairs


def harmless(users: Pairs, repository: Pairs, head: bytes) -> str:
    """The text of a configuration file: what may be taken over of both, the repository's last."""
    chosen: dict[str, str] = {}
    for name, value in (*users, *repository):
        if (known := _known(name, value)) is not None:
            chosen[name] = known
    chosen |= {name: value for name, value in users if name in _USERS_FILES and value and value.startswith("/")}
    chosen["core.repositoryformatversion"] = str(int(any(name.startswith("extensions.") for name in chosen)))
    lines = [_line(name, value) for name, value in chosen.items()]
    return "".join([*lines, *_upstream(repository, head)])


def last(pairs: Pairs, name: str) -> str:
    """The value that counts; "" if there is none."""
    return next((value or "" for each, value in reversed(pairs) if each == name), "")


def _known(name: str, value: str | None) -> str | None:
    word = "true" if value is None else value.lower()
    if name in _FLAGS and word in _TRUE | _FALSE:
        return "true" if word in _TRUE else "false"
    return word if word in _WORDS.get(name, ()) else None


def _upstream(pairs: Pairs, head: bytes) -> Iterator[str]:
    """What it takes to say how far the current branch is from its upstream: no address is among it."""
    branch = head.decode("utf-8", "surrogateescape").strip().removeprefix("ref: refs/heads/")
    remote, merge = last(pairs, f"branch.{branch}.remote"), last(pairs, f"branch.{branch}.merge")
    if not (_is_plain(branch) and _is_plain(remote) and _is_plain(merge)):
        return
    yield _section("branch", branch) + f"\tremote = {_quoted(remote)}\n\tmerge = {_quoted(merge)}\n"
    for name, value in pairs:
        if name == f"remote.{remote}.fetch" and value and _is_plain(value):
            yield _section("remote", remote) + f"\tfetch = {_quoted(value)}\n"


def _is_plain(text: str) -> bool:
    return bool(text) and text.isprintable() and not text.startswith("-") and "::" not in text


def _line(name: str, value: str) -> str:
    section, _, key = name.partition(".")
    return f"[{section}]\n\t{key} = {_quoted(value)}\n"


def _section(name: str, part: str) -> str:
    return f"[{name} {_quoted(part)}]\n"


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
