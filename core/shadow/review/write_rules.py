"""The user's rules about writing, enforced where accepted content is written to the project.

The gate refuses tool calls, but a command that changes files has no gate for every file. So every path that a verdict
would write is compared with `deny = ["Write(…)"]`. A denied path stays pending, with the rule as its risk. Undoing a
verdict or restoring a checkpoint restores the user's own bytes, and is not denied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from core.errors import PathRefused, ReviewConflict
from core.permissions.rules import PermissionRule, select_rules
from core.protocol.review import WRITE_DENIED
from core.shadow.content.paths import format_paths
from core.shadow.layers.merged_tree import MergedTree

LoadRules = Callable[[], Sequence[PermissionRule]]


class WriteRules(Struct, eq=False):
    """The rules of one session. `load_rules` returns the present rules; `list_links` the links of the project that give
    a path other names."""

    tree: MergedTree
    load_rules: LoadRules
    list_links: Callable[[], Iterable[str]]

    @property
    def deny_any(self) -> bool:
        """True if a rule denies writing."""
        return bool(select_rules(self.load_rules(), "Write", "deny"))

    def find_denials(self, paths: Iterable[str]) -> dict[str, str]:
        """Return the denied paths, with texts that complete the sentence "it …"."""
        rules = select_rules(self.load_rules(), "Write", "deny")
        if not rules:
            return {}
        aliases, denials = self._find_aliases(), dict[str, str]()
        for path in paths:
            names = (
                path,
                *(link + path[len(target) :] for link, target in aliases if f"{path}/".startswith(f"{target}/")),
            )
            matches = ((rule, name) for name in names for rule in rules if rule.matches(name))
            if match := next(matches, None):
                rule, name = match
                source_suffix = f" of {rule.source}" if rule.source else ""
                alias = "" if name == path else f" (it is {name} as well)"
                denials[path] = f"{WRITE_DENIED}: the rule deny {rule}{source_suffix} applies{alias}"
        return denials

    def refuse(self, paths: Iterable[str]) -> None:
        """Raise `ReviewConflict` if a rule denies one of the paths."""
        if denials := self.find_denials(paths):
            first = next(iter(denials))
            suffix = f" So are {format_paths(list(denials)[1:])}." if len(denials) > 1 else ""
            raise ReviewConflict(
                f"{first} {denials[first]}. Nothing was written.{suffix}",
                hint="Reject it, or remove the rule from your configuration; until then it stays pending.",
                code="write_denied",
            )

    def _find_aliases(self) -> list[tuple[str, str]]:
        """Return links with their targets."""
        aliases = []
        for link in dict.fromkeys(self.list_links()):
            try:
                target = self.tree.resolve_links(link)
            except PathRefused:
                continue
            if target not in (link, "."):
                aliases.append((link, target))
        return aliases
