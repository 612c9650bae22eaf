"""Saved permissions of one workspace: exact commands, and patterns that the user typed (SAFETY M6).

They lie in the state directory, out of reach of the project and of commands. An exact answer is the digest of what was
asked (command, directory, variables, tier, mode, network); nothing is ever generalised from a command.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from core.clock import now_ms
from core.ids import Id, new_id
from core.permissions.approval import Approval
from core.permissions.directory_identity import identify_directory
from core.permissions.rules import PermissionChoice, PermissionRule, parse_rule
from core.permissions.state_file import StateFile

FILE_NAME = "permissions.json"
SOURCE = "your answer"
SESSION_PREFIX = "session:"  # of the id of what was granted for the session alone, before its rule
MAX_SAVED = 500


class SavedRule(Struct, frozen=True, kw_only=True):
    """One saved answer. Either `rule` or `digest` is set; `shown` is the exact command, `at` in ms.

    `born`: the identity of the directory that it was given in; it allows nothing in another one in its place, but a
    refusal stays.
    """

    id: Id
    choice: PermissionChoice
    rule: str = ""
    digest: str = ""
    shown: str = ""
    directory: str = "."
    at: int = 0
    born: str = ""


_Change = Callable[[tuple[SavedRule, ...]], tuple[SavedRule, ...]]


class _RuleBook(Struct, frozen=True, kw_only=True):
    workspaces: dict[str, tuple[SavedRule, ...]] = field(default_factory=dict)


class SavedRules:
    """The saved answers of one workspace. Every method raises `StateError` when the file can't be used.

    With `keeps` False answers last as long as this object.
    """

    def __init__(self, workspace: Path, *, keeps: bool = True) -> None:
        self._workspace = str(workspace)
        self._root = workspace
        self._parsed: tuple[tuple[SavedRule, ...], tuple[PermissionRule, ...]] = ((), ())
        self._file = StateFile(FILE_NAME, _RuleBook, keeps=keeps)

    @property
    def path(self) -> Path:
        return self._file.path

    def load(self) -> tuple[SavedRule, ...]:
        return self._select_valid(self._file.read())

    def parse_rules(self) -> tuple[PermissionRule, ...]:
        kept = self.load()
        if kept != self._parsed[0]:
            self._parsed = (kept, tuple(parse_rule(each.rule, each.choice, SOURCE) for each in kept if each.rule))
        return self._parsed[1]

    def find_choice(self, approval: Approval) -> PermissionChoice | None:
        """Return the answer to exactly this, the stricter one if there are two; None: there is none."""
        digest = approval.compute_digest()
        found = {each.choice for each in self.load() if each.digest == digest}
        return "deny" if "deny" in found else "allow" if found else None

    def save(self, choice: PermissionChoice, approval: Approval, *, rule: str = "") -> SavedRule:
        """Save an answer: the rule that the user typed (`ConfigError` if it is none), else exactly what was asked."""
        kept = SavedRule(id=new_id("perm"), choice=choice, at=now_ms(), born=_format_identity(self._root))
        if rule:
            kept = replace(kept, rule=str(parse_rule(rule, choice)))
        else:
            kept = replace(kept, digest=approval.compute_digest(), shown=approval.subject, directory=approval.directory)
        subject = (kept.rule, kept.digest)
        self._change(
            lambda before: (*(each for each in before if (each.rule, each.digest) != subject), kept)[-MAX_SAVED:]
        )
        return kept

    def remove(self, identity: str) -> bool:
        """Delete one answer. Returns False if there is none of this id."""
        known = any(each.id == identity for each in self.load())
        self._change(lambda before: tuple(each for each in before if each.id != identity))
        return known

    def _change(self, change: _Change) -> None:
        def replace_rules(book: _RuleBook) -> _RuleBook:
            now = change(self._select_valid(book))
            rest = {name: kept for name, kept in book.workspaces.items() if name != self._workspace}
            return _RuleBook(workspaces=rest | ({self._workspace: now} if now else {}))

        self._file.update(replace_rules)

    def _select_valid(self, book: _RuleBook) -> tuple[SavedRule, ...]:
        kept = book.workspaces.get(self._workspace, ())
        here = _format_identity(self._root) if any(each.choice == "allow" for each in kept) else ""
        return tuple(each for each in kept if each.choice != "allow" or each.born == here)


def _format_identity(directory: Path) -> str:
    try:
        found = identify_directory(directory)
    except OSError:
        return "gone"
    return f"{found.device}:{found.inode}:{found.born}"
