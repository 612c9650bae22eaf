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
    for event in events:
        if isinstance(event, ev.ErrorRaised):
            text = to_one_line(f"{event.message} {event.hint}".strip())
            errors.setdefault(event.path, []).append(text)
    return {path: " ".join(dict.fromkeys(texts)) for path, texts in errors.items()}


def list_left(
    changes: Mapping[str, Change], requested_paths: Sequence[str], errors: Mapping[str, str], verdict: Verdict
) -> list[tuple[str, str]]:
    """Return each change that still waits, of those that were `requested_paths` ("all", or by their paths), and why."""
    return [
        (format_change_path(change), explain_left(change, errors, verdict))
        for change in list_changes(changes)
        if "all" in requested_paths or {change.path, change.renamed_from} & set(requested_paths)
    ]


def explain_left(change: Change, errors: Mapping[str, str], verdict: Verdict) -> str:
    """Return why a change still waits: what went wrong with it, that it is in conflict, or that it is protected."""
    names = [name for name in (change.path, change.renamed_from) if name]
    if error_text := " ".join(errors[name] for name in names if name in errors):
        return error_text
    if reason := change.conflict or (change.risk if change.is_denied else ""):
        return to_one_line(reason)
    if change.protected:
        verb = "accepted" if verdict == "accept" else "rejected"
        risk_note = f"{change.risk}; " if change.risk else ""
        return f"protected: {risk_note}it is {verb} by its name only"
    return errors.get("", "") or "nothing was done about it; see what was said above"


def format_left(path: str, reason: str) -> str:
    """Return the line for a path that was left."""
    return f"left      {path}{f' ({reason})' if reason else ''}"


def format_unknown(name: str) -> str:
    """Return the line for a name for which nothing waits."""
    return format_left(display_name(name), "nothing waits there: agent-tui review --print lists what does")
