"""Places that an edit broke: what does not parse now, without what did not parse before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from core.edits.syntax import SyntaxFlaw, find_flaws
from core.text.lines import split_lines

_ASKED = 200


def find_new_flaws(path: str, before: str, after: str) -> tuple[SyntaxFlaw, ...]:
    """Find the flaws of `after` that `before` does not have, in order; none where the language is not known.

    A flaw is the same when its line has the same text, wherever it stands.
    """
    if before == after:
        return ()
    now = find_flaws(path, after, limit=_ASKED)
    if not now:
        return ()
    known = Counter(_build_flaw_keys(before, find_flaws(path, before, limit=_ASKED) or ()))
    fresh = []
    for flaw, key in zip(now, _build_flaw_keys(after, now), strict=True):
        if known[key]:
            known[key] -= 1
        else:
            fresh.append(flaw)
    return tuple(fresh)


def _build_flaw_keys(text: str, found: Sequence[SyntaxFlaw]) -> list[tuple[str, str]]:
    bodies = split_lines(text).bodies
    return [(bodies[flaw.line - 1].strip() if flaw.line <= len(bodies) else "", flaw.missing) for flaw in found]


def describe_first_flaw(path: str, before: str, after: str) -> str:
    """Describe the first place that does not parse, when everything parsed before; "" else."""
    if before == after or find_flaws(path, before, limit=1) != ():
        return ""
    found = find_flaws(path, after, limit=1)
    return describe_flaw(found[0]) if found else ""


def describe_flaw(flaw: SyntaxFlaw) -> str:
    """Describe a flaw with its line, for a model or a user."""
    what = f"{flaw.missing!r} is missing" if flaw.missing else "this does not parse"
    return f"line {flaw.line}: {what}"
