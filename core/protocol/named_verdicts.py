"""Verdicts on what a user names: a path, a bulk, a directory or a pattern, in a prompt and on a command line alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from core.protocol.commands import BulkResolve, HunkResolve
from core.protocol.renames import list_changes, select_named
from core.protocol.review import Bulk, Change, Verdict


def clean_name(name: str) -> str:
    """Return a name as paths of the project are written: without `./` before it or a slash after it."""
    return name.removeprefix("./").rstrip("/") or "."


def build_named_verdict(
    name: str, verdict: Verdict, changes: Mapping[str, Change], bulks: Iterable[Bulk], *, session: str = ""
) -> HunkResolve | BulkResolve:
    """Return the command for a verdict on a name; "" and `all` are everything. A change or bulk of exactly this name
    comes first, and is confirmed by being named. Of a directory or a pattern, protected files stay pending."""
    if name in {"", "all"}:
        return HunkResolve(session=session, path="", verdict=verdict)
    path = clean_name(name)
    if path not in changes:
        if any(bulk.root == path for bulk in bulks):
            return BulkResolve(session=session, root=path, verdict=verdict, confirmed=True)
        if paths := tuple(change.path for change in select_named(list_changes(changes), [path])):
            return HunkResolve(session=session, path="", paths=paths, verdict=verdict)
    return HunkResolve(session=session, path=path, verdict=verdict, confirmed=True)
