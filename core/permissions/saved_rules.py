"""The rules of a session, and the saved answers of its workspace: exact commands, and patterns that the user typed.

Answers are stored in the state directory, which neither the project nor commands can access. An exact answer is the
digest of the question (command, directory, variables, tier, mode, network); a command is never generalised to a
pattern, which could allow more than the user saw.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from core.clock import now_ms
from core.ids import Id, new_id
from core.permissions.approval import Approval
from core.permissions.rules import PermissionChoice, PermissionRule, parse_rule
from core.permissions.state_file import StateFile
from core.permissions.trust import identify_directory

FILE_NAME = "permissions.json"
SOURCE = "your answer"
SESSION_PREFIX = "session:"  # prefix of the id of a grant for the session, followed by its rule
MAX_SAVED = 500


class SavedRule(Struct, frozen=True, kw_only=True):
    """One saved answer. Either `rule` or `digest` is set; `shown` is the exact command, `at` in ms.

    `born`: the identity of the answer's directory. If another directory has replaced it, a permission is void, but a
    refusal remains.
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

    With `is_persistent` False answers last as long as this object.
    """

    def __init__(self, workspace: Path, *, is_persistent: bool = True) -> None:
        self._root, self._workspace = workspace, str(workspace)
        self._parsed: tuple[tuple[SavedRule, ...], tuple[PermissionRule, ...]] = ((), ())
        self._file = StateFile(FILE_NAME, _RuleBook, is_persistent=is_persistent)

    @property
    def path(self) -> Path:
        return self._file.path

    def load(self) -> tuple[SavedRule, ...]:
        return self._select_valid(self._file.read())

    def parse_rules(self) -> tuple[PermissionRule, ...]:
        saved_rules = self.load()
        if saved_rules != self._parsed[0]:
            rules = (parse_rule(answer.rule, answer.choice, SOURCE) for answer in saved_rules if answer.rule)
            self._parsed = (saved_rules, tuple(rules))
        return self._parsed[1]

    def find_choice(self, approval: Approval) -> PermissionChoice | None:
        """Return the saved answer to exactly this question, the stricter one of two; None: there is none."""
        digest = approval.compute_digest()
        choices = {saved_rule.choice for saved_rule in self.load() if saved_rule.digest == digest}
        return "deny" if "deny" in choices else "allow" if choices else None

    def save(self, choice: PermissionChoice, approval: Approval, *, rule: str | None = None) -> SavedRule:
        """Save an answer: the user's rule (`ConfigError` if it is invalid), else the exact question."""
        new_rule = SavedRule(id=new_id("perm"), choice=choice, at=now_ms(), born=_format_identity(self._root))
        if rule is not None:
            new_rule = replace(new_rule, rule=str(parse_rule(rule, choice)))
        else:
            digest = approval.compute_digest()
            new_rule = replace(new_rule, digest=digest, shown=approval.subject, directory=approval.directory)

        def append(before: tuple[SavedRule, ...]) -> tuple[SavedRule, ...]:
            others = (answer for answer in before if (answer.rule, answer.digest) != (new_rule.rule, new_rule.digest))
            return (*others, new_rule)[-MAX_SAVED:]

        self._change(append)
        return new_rule

    def remove(self, identity: str) -> bool:
        """Delete one answer. Returns False if there is none of this id."""
        is_known = any(saved_rule.id == identity for saved_rule in self.load())
        self._change(lambda before: tuple(saved_rule for saved_rule in before if saved_rule.id != identity))
        return is_known

    def _change(self, change: _Change) -> None:
        def replace_rules(book: _RuleBook) -> _RuleBook:
            now = change(self._select_valid(book))
            rest = {name: saved_rules for name, saved_rules in book.workspaces.items() if name != self._workspace}
            return _RuleBook(workspaces=rest | ({self._workspace: now} if now else {}))

        self._file.update(replace_rules)

    def _select_valid(self, book: _RuleBook) -> tuple[SavedRule, ...]:
        saved_rules = book.workspaces.get(self._workspace, ())
        is_needed = any(answer.choice == "allow" for answer in saved_rules)
        identity = _format_identity(self._root) if is_needed else ""
        return tuple(answer for answer in saved_rules if answer.choice != "allow" or answer.born == identity)


class SessionRules(Struct, frozen=True):
    """The rules of one session: `configured` returns those of its configuration as it is now, `saved` are answers."""

    configured: Callable[[], tuple[PermissionRule, ...]]
    saved: SavedRules

    def load(self) -> tuple[PermissionRule, ...]:
        """Return the rules that hold now. Raises `StateError`."""
        return (*self.configured(), *self.saved.parse_rules())


def _format_identity(directory: Path) -> str:
    try:
        identity = identify_directory(directory)
    except OSError:
        return "gone"
    return f"{identity.device}:{identity.inode}:{identity.born}"
