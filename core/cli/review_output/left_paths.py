"""The reasons why paths that were named for a verdict still wait, in words for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from core.protocol import events as ev
from core.protocol.renames import format_change_path, list_changes
from core.protocol.review import Change, Verdict
from core.text.display_names import display_name, to_one_line


def collect_errors(events: Iterable[ev.AnyEvent]) -> dict[str, str]:
    """Return what went wrong with verdicts, by path; under "" what is about no path of its own."""
    errors: dict[str, list[str]] = {}
    for each in events:
        if isinstance(each, ev.ErrorRaised):
            text = to_one_line(f"{each.message} {each.hint}".strip())
            errors.setdefault(each.path, []).append(text)
    return {path: " ".join(dict.fromkeys(texts)) for path, texts in errors.items()}


def list_left(
    changes: Mapping[str, Change], wanted: Sequence[str], errors: Mapping[str, str], verdict: Verdict
) -> list[tuple[str, str]]:
    """Return each change that still waits, of those that were `wanted` ("all", or by their paths), and why."""
    return [
        (format_change_path(change), explain_left(change, errors, verdict))
        for change in list_changes(changes)
        if "all" in wanted or {change.path, change.renamed_from} & set(wanted)
    ]


def explain_left(change: Change, errors: Mapping[str, str], verdict: Verdict) -> str:
    """Return why a change still waits: what went wrong with it, that it is in conflict, or that it is protected."""
    names = [each for each in (change.path, change.renamed_from) if each]
    if told := " ".join(errors[each] for each in names if each in errors):
        return told
    if reason := change.conflict or (change.risk if change.is_denied else ""):
        return to_one_line(reason)
    if change.protected:
        verb = "accepted" if verdict == "accept" else "rejected"
        why = f"{change.risk}; " if change.risk else ""
        return f"protected: {why}it is {verb} by its name only"
    return errors.get("", "") or "nothing was done about it; see what was said above"


def format_left(path: str, why: str) -> str:
    """Return the line for a path that was left."""
    return f"left      {path}{f' ({why})' if why else ''}"


def format_unknown(name: str) -> str:
    """Return the line for a name for which nothing waits."""
    return format_left(display_name(name), "nothing waits there: agent-tui review --print lists what does")
