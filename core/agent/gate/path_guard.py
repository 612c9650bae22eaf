"""The guard of paths: the rules on paths, and secrets that nobody said yes to, whatever a file tool asks for.

The gate asks about the files that a call names; everything that a tool opens comes past here as well, so a search never
brings out what a read would have had to ask for (SAFETY P20).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from core.errors import PathRefused
from core.modes import Access
from core.permissions.policy import PolicyDecision, decide_path
from core.permissions.rules import PermissionRule
from core.workspace import IgnoreRules
from core.workspace.secret_names import is_secret


class PathGuard:
    """The guard of one call. `approved`: paths that the user said yes to."""

    def __init__(
        self,
        ignore: IgnoreRules,
        canonical: Callable[[str], str],
        rules: Sequence[PermissionRule],
        approved: frozenset[str] = frozenset(),
    ) -> None:
        self._ignore = ignore
        self._canonical = canonical
        self._rules = rules
        self._approved = approved

    def decide(self, access: Access, rel: str) -> PolicyDecision:
        """Return the stricter of the decisions on the path and on what its links lead to."""
        found = [self._decide_one(access, path) for path in dict.fromkeys((rel, self._canonical(rel)))]
        return max(found, key=lambda each: ("allow", "ask", "deny").index(each.choice))

    def _decide_one(self, access: Access, rel: str) -> PolicyDecision:
        secret = is_secret(rel, self._ignore.is_ignored)
        return decide_path(access, rel, rules=self._rules, is_secret=secret)

    def check(self, access: Access, rel: str) -> None:
        """Raise `PathRefused` for what is refused, or must be asked about and was not."""
        if rel in self._approved:
            return
        decided = self.decide(access, rel)
        if decided.choice == "deny":
            raise PathRefused(f"{rel!r} is kept from the agent. {decided.reason}", code="path_denied")
        if decided.choice == "ask":
            raise PathRefused(
                f"{rel!r} needs the user's yes. {decided.reason}",
                hint="Name exactly this file in a call of its own.",
                code="path_unasked",
            )
