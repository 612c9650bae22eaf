"""The changes of a repository's references by one command, read from the lines that git added to HEAD's log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from core.patterns import compile_lazily

_MAX_NAMED = 3
_SHORT = 7  # digits of an object name
_MAX_SUBJECT = 72
_LINE = compile_lazily(rb"(?m)^[0-9a-f]{40,64} (?P<new>[0-9a-f]{40,64}) [^\t\n]*\t(?P<message>[^\n]*)$")
_COMMIT = compile_lazily(
    r"(?:commit(?: \((?:initial|amend|merge|cherry-pick)\))?|cherry-pick|revert|am|"
    r"rebase(?: -i)? \((?:pick|reword|edit|squash|fixup|continue)\)): (?P<subject>.*)"
)
_CHECKOUT = compile_lazily(r"checkout: moving from \S+ to (?P<target>\S+)")


class GitMoves(Struct, frozen=True):
    """The moves of a repository. `log`: the lines that were added to HEAD's log; `branch`: the branch that is checked
    out now, "" = none; `references`: other references that were made or changed, as below `refs/`."""

    log: bytes = b""
    branch: str = ""
    references: tuple[str, ...] = ()
    has_staged: bool = False

    def describe(self) -> str:
        """Describe the moves: `commit 268b3b9 "fix x", branch fix`; "" = there are none."""
        entries = [(match["new"].decode()[:_SHORT], _decode(match["message"])) for match in _LINE.finditer(self.log)]
        parts = [_list_commits(entries)]
        if entries and not parts[0]:
            name, message = entries[-1]
            checkout = _CHECKOUT.match(message)
            parts = [] if checkout and checkout["target"] == self.branch else [f"HEAD at {name} ({message})"]
        if entries:
            parts.append(f"branch {self.branch}" if self.branch else "no branch")
        parts += _list_references(name for name in self.references if name != f"heads/{self.branch}" or not entries)
        if not any(parts) and self.has_staged:
            parts = ["staged changes"]
        return ", ".join(filter(None, parts))


def _decode(message: bytes) -> str:
    text = message.decode("utf-8", "replace")
    return text if len(text) <= _MAX_SUBJECT else f"{text[:_MAX_SUBJECT]}…"


def _list_commits(entries: Sequence[tuple[str, str]]) -> str:
    commits = [(name, match["subject"]) for name, message in entries if (match := _COMMIT.match(message))]
    if not commits:
        return ""
    names = ", ".join(f'{name} "{subject}"' for name, subject in commits[-_MAX_NAMED:])
    rest = f"{len(commits) - _MAX_NAMED} more, then " if len(commits) > _MAX_NAMED else ""
    return f"commit{'' if len(commits) == 1 else 's'} {rest}{names}"


def _list_references(names: Iterable[str]) -> list[str]:
    kinds = {"heads": "branch", "tags": "tag", "remotes": "remote branch"}
    texts = []
    for name in names:
        kind, _, rest = name.partition("/")
        texts.append("a stash" if name == "stash" else f"{kinds[kind]} {rest}" if kind in kinds else f"refs/{name}")
    return [*texts[:_MAX_NAMED], *([f"{len(texts) - _MAX_NAMED} more references"] if len(texts) > _MAX_NAMED else [])]
