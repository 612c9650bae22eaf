"""The settings of a repository and of the user that git is run with: those that only affect the comparison of files.

Settings that name a program, a file of the project or another path are not disabled one by one: only settings in these
tables are copied, and only with one of their known values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

ConfigPairs = list[tuple[str, str | None]]

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
_USER_FILES: Final = ("core.excludesfile", "core.attributesfile")


def parse_pairs(listing: bytes) -> ConfigPairs:
    """Parse `git config --list --null`: names (section and key in lower case) and values; None = the name has no
    value."""
    pairs: ConfigPairs = []
    for record in listing.decode("utf-8", "surrogateescape").split("\0")[:-1]:
        name, has_value, value = record.partition("\n")
        pairs.append((name, value if has_value else None))
    return pairs


def render_config(users: ConfigPairs, repository: ConfigPairs, head: bytes) -> str:
    """Return the text of a configuration file: the accepted settings of both, the repository's last."""
    values_by_name: dict[str, str] = {}
    for name, value in (*users, *repository):
        if (accepted_value := _accept_value(name, value)) is not None:
            values_by_name[name] = accepted_value
    values_by_name |= {name: value for name, value in users if name in _USER_FILES and value and value.startswith("/")}
    values_by_name["core.repositoryformatversion"] = str(
        int(any(name.startswith("extensions.") for name in values_by_name))
    )
    values_by_name["diff.autorefreshindex"] = (
        "false"  # otherwise git diff writes the user's index, in spite of GIT_OPTIONAL_LOCKS
    )
    values_by_name["core.splitindex"] = (
        "false"  # otherwise a copy of an index is written in two parts, one of them in our directory
    )
    settings = ((name.partition("."), value) for name, value in values_by_name.items())
    lines = [f"[{section}]\n\t{key} = {_quote(value)}\n" for (section, _, key), value in settings]
    return "".join([*lines, *_render_upstream(repository, head)])


def render_section(section: str, settings: Mapping[str, str]) -> str:
    """Return the text of one section."""
    return f"[{section}]\n" + "".join(f"\t{key} = {_quote(value)}\n" for key, value in settings.items())


def find_last(pairs: ConfigPairs, name: str) -> str:
    """Return the effective value; "" = there is none."""
    return next((value or "" for key, value in reversed(pairs) if key == name), "")


def is_true(value: str) -> bool:
    """True if a value enables a setting."""
    return value.lower() in _TRUE


def is_switch(value: str | None) -> bool:
    """True if a value only enables or disables a setting; None = no value, which enables it."""
    return value is None or value.lower() in _TRUE | _FALSE


def _accept_value(name: str, value: str | None) -> str | None:
    word = "true" if value is None else value.lower()
    if name in _FLAGS and is_switch(value):
        return "true" if word in _TRUE else "false"
    return word if word in _WORDS.get(name, ()) else None


def _render_upstream(pairs: ConfigPairs, head: bytes) -> Iterator[str]:
    """Yield the settings for comparing the current branch with its upstream; addresses are not among them."""
    branch = head.decode("utf-8", "surrogateescape").strip().removeprefix("ref: refs/heads/")
    remote, merge = find_last(pairs, f"branch.{branch}.remote"), find_last(pairs, f"branch.{branch}.merge")
    if not (_is_plain(branch) and _is_plain(remote) and _is_plain(merge)):
        return
    yield f"[branch {_quote(branch)}]\n\tremote = {_quote(remote)}\n\tmerge = {_quote(merge)}\n"
    for name, value in pairs:
        if name == f"remote.{remote}.fetch" and value and _is_plain(value):
            yield f"[remote {_quote(remote)}]\n\tfetch = {_quote(value)}\n"


def _is_plain(text: str) -> bool:
    return bool(text) and text.isprintable() and not text.startswith("-") and "::" not in text


def _quote(value: str) -> str:
    escaped_value = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped_value}"'
