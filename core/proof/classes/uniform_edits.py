"""Edits that are the same in many places: one name replaced by another, as when a function is renamed.

One place stands for all of them; a place in which more than that was changed is no such edit.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from typing import Final, NamedTuple

from core.patterns import compile_lazily

_TOKEN: Final = compile_lazily(r"\w+|\s+|[^\w\s]")
_NAME: Final = compile_lazily(r"[^\W\d]\w{2,}")
MINIMUM: Final = 3
_MOST_TOKENS: Final = 600
Place = tuple[str, str]  # path and id of a hunk


class Substitution(NamedTuple):
    """A text, and what stands in its place."""

    old: str
    new: str

    def format(self) -> str:
        """Return it as a person reads it: `get_price → price_of`."""
        return f"{self.old} → {self.new}"


def find_substitution(old: Sequence[str], new: Sequence[str]) -> Substitution | None:
    """Return the one name that makes the difference between the lines of a hunk; None = there is more, or no name."""
    if not old or len(old) != len(new):
        return None
    old_tokens, new_tokens = _TOKEN.findall("\n".join(old)), _TOKEN.findall("\n".join(new))
    if max(len(old_tokens), len(new_tokens)) > _MOST_TOKENS:
        return None
    matcher = SequenceMatcher(None, old_tokens, new_tokens, autojunk=False)
    differences = {
        Substitution("".join(old_tokens[a:b]), "".join(new_tokens[c:d]))
        for kind, a, b, c, d in matcher.get_opcodes()
        if kind != "equal"
    }
    if len(differences) != 1:
        return None
    (substitution,) = differences
    is_of_names = _NAME.fullmatch(substitution.old) and re.fullmatch(r"[\w.]+", substitution.new)
    return substitution if is_of_names else None


def find_uniform_edits(hunks: Iterable[tuple[Place, Substitution]]) -> dict[Place, tuple[Substitution, Place]]:
    """Return the hunks whose substitution occurs often enough, each with the hunk that stands for all."""
    groups = defaultdict[Substitution, list[Place]](list)
    for hunk, substitution in hunks:
        groups[substitution].append(hunk)
    return {
        hunk: (substitution, group[0])
        for substitution, group in groups.items()
        if len(group) >= MINIMUM
        for hunk in group
    }
