"""What the user said for good in one workspace: exact commands, and patterns that they typed themselves (SAFETY M6).

Kept in the state directory, out of reach of the project and of commands. An exact answer is the digest of what was
asked (command, directory, variables, tier, mode, network); nothing is ever generalised from a command.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from core.clock import now_ms
from core.ids import new_id
from core.permissions.approval import Approval
from core.permissions.identity import identity_of
from core.permissions.rules import Choice, Rule, parse_rule
from core.permissions.state_file import StateFile

FILE = "permissions.json"
SOURCE = "your answer"
MAX_KEPT = 500


class Kept(Struct, frozen=True, kw_only=True):
    """One answer. Either `rule` or `digest` is set; `shown` is the exact command, `at` in ms. `born`: the directory
    that it was given in; another one in its place is allowed nothing by it, but what was refused stays refused."""

    id: str
    choice: Choice
    rule: str = ""
    digest: str = ""
    shown: str = ""
    directory: str = "."
    at: int = 0
    born: str = ""


_Change = Callable[[tuple[Kept, ...]], tuple[Kept, ...]]


class _Book(Struct, frozen=True, kw_only=True):
    workspaces: dict[str, tuple[Kept, ...]] = field(default_factory=dict)


class Remembered:
    """The answers of one workspace. Every method raises `StateError` when the file can't be used. `keeps` False: what
    is said now holds as long as this object does."""

    def __init__(self, workspace: Path, *, keeps: bool = True) -> None:
        self._workspace = str(workspace)
        self._root = workspace
        self._file = StateFile(FILE, _Book, keeps=keeps)

    @property
    def path(self) -> Path:
        return self._file.path

    def all(self) -> tuple[Kept, ...]:
        return self._holding(self._file.read().workspaces.get(self._workspace, ()))

    def rules(self) -> tuple[Rule, ...]:
        return tuple(parse_rule(each.rule, each.choice, SOURCE) for each in self.all() if each.rule)

    def choice(self, approval: Approval) -> Choice | None:
        """What was said of exactly this; the stricter answer if there are two."""
        digest = approval.digest()
        found = {each.choice for each in self.all() if each.digest == digest}
        return "deny" if "deny" in found else "allow" if found else None

    def keep(self, choice: Choice, approval: Approval, *, rule: str = "") -> Kept:
        """Keep an answer: the rule that the user typed, else exactly what was asked. `ConfigError`: no rule."""
        kept = Kept(id=new_id("perm"), choice=choice, at=now_ms(), born=_born(self._root))
        if rule:
            kept = replace(kept, rule=str(parse_rule(rule, choice)))
        else:
            kept = replace(kept, digest=approval.digest(), shown=approval.subject, directory=approval.directory)
        self._change(lambda before: (*(each for each in before if not _same(each, kept)), kept)[-MAX_KEPT:])
        return kept

    def remove(self, identity: str) -> bool:
        """Forget one answer. False: there is none of this id."""
        known = any(each.id == identity for each in self.all())
        self._change(lambda before: tuple(each for each in before if each.id != identity))
        return known

    def _change(self, change: _Change) -> None:
        def changed(book: _Book) -> _Book:
            now = change(self._holding(book.workspaces.get(self._workspace, ())))
            rest = {name: kept for name, kept in book.workspaces.items() if name != self._workspace}
            return _Book(workspaces=rest | ({self._workspace: now} if now else {}))

        self._file.change(changed)

    def _holding(self, kept: tuple[Kept, ...]) -> tuple[Kept, ...]:
        here = _born(self._root) if any(each.choice == "allow" for each in kept) else ""
        return tuple(each for each in kept if each.choice != "allow" or each.born == here)


def _born(directory: Path) -> str:
    """What tells this directory from another one of its name."""
    try:
        found = identity_of(directory)
    except OSError:
        return "gone"
    return f"{found.device}:{found.inode}:{found.born}"


def _same(first: Kept, second: Kept) -> bool:
    """Whether two answers are about the same, whatever they say; the later one counts."""
    return (first.rule, first.digest) == (second.rule, second.digest)
