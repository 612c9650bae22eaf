"""What an edit broke: places that do not parse now, without those that did not parse before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from core.edits.lines import split_lines
from core.edits.syntax import Flaw, flaws

_ASKED = 200


def new_flaws(path: str, before: str, after: str) -> tuple[Flaw, ...]:
    """The flaws of `after` that `before` does not have, in order; none where the language is not known.

    A flaw is the same when its line has the same text, wherever it stands.
    """
    if before == after:
        return ()
    now = flaws(path, after, limit=_ASKED)
    if not now:
        return ()
    known = Counter(_keys(before, flaws(path, before, limit=_ASKED) or ()))
    fresh = []
    for flaw, key in zip(now, _keys(after, now), strict=True):
        if known[key]:
            known[key] -= 1
        else:
            fresh.append(flaw)
    return tuple(fresh)


def _keys(text: str, found: Sequence[Flaw]) -> list[tuple[str, str]]:
    bodies = split_lines(text).bodies
    return [(bodies[flaw.line - 1].strip() if flaw.line <= len(bodies) else "", flaw.missing) for flaw in found]


def first_flaw(path: str, before: str, after: str) -> str:
    """The first place that does not parse, in words, when everything parsed before; "" else."""
    if before == after or flaws(path, before, limit=1) != ():
        return ""
    found = flaws(path, after, limit=1)
    return told(found[0]) if found else ""


def told(flaw: Flaw) -> str:
    what = f"{flaw.missing!r} is missing" if flaw.missing else "this does not parse"
    return f"line {flaw.line}: {what}"
