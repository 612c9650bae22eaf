"""The user's rules about writing, held where accepted content goes to the project: whoever wrote it, and however.

A tool is refused by its gate, and a command that touches a file has no gate for each: so what `deny = ["Write(…)"]`
names is compared with every path that a verdict would write. Such a path stays pending, with the rule as its risk.
Taking a verdict back or restoring a checkpoint puts the user's own bytes back, and is no such writing.
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
    """The rules of one session. `load_rules` gives those that hold now; `list_links` the links of the project by which
    a path may be known under another name."""

    tree: MergedTree
    load_rules: LoadRules
    list_links: Callable[[], Iterable[str]]

    @property
    def deny_any(self) -> bool:
        """True if there is a rule that denies writing."""
        return bool(select_rules(self.load_rules(), "Write", "deny"))

    def find_denials(self, paths: Iterable[str]) -> dict[str, str]:
        """Return the paths that a rule denies, each with a text that completes the sentence "it …"."""
        rules = select_rules(self.load_rules(), "Write", "deny")
        if not rules:
            return {}
        aliases, denials = self._find_aliases(), dict[str, str]()
        for path in paths:
            names = (
                path,
                *(link + path[len(target) :] for link, target in aliases if f"{path}/".startswith(f"{target}/")),
            )
            hits = ((rule, name) for name in names for rule in rules if rule.matches(name))
            if hit := next(hits, None):
                rule, name = hit
                source_suffix = f" of {rule.source}" if rule.source else ""
                alias = "" if name == path else f" (it is {name} as well)"
                denials[path] = f"{WRITE_DENIED}: the rule deny {rule}{source_suffix} says so{alias}"
        return denials

    def refuse(self, paths: Iterable[str]) -> None:
        """Raise `ReviewConflict` if a rule denies one of the paths."""
        if denials := self.find_denials(paths):
            first = next(iter(denials))
            suffix = f" So are {format_paths(list(denials)[1:])}." if len(denials) > 1 else ""
            raise ReviewConflict(
                f"{first} {denials[first]}. Nothing was written.{suffix}",
                hint="Reject it, or take the rule out of your configuration; until then it stays pending.",
                code="write_denied",
            )

    def _find_aliases(self) -> list[tuple[str, str]]:
        """Return links with the places that they lead to."""
        aliases = []
        for link in dict.fromkeys(self.list_links()):
            try:
                target = self.tree.resolve_links(link)
            except PathRefused:
                continue
            if target not in (link, "."):
                aliases.append((link, target))
        return aliases
