"""Queries about files: a directory with its marks, one file, names for completion."""

from __future__ import annotations

from typing import Final

from core.engine.queries.source import QuerySource
from core.engine.session.session import Session
from core.errors import PathRefused
from core.languages import detect_language
from core.protocol import queries as q
from core.workspace import Workspace

MAX_ENTRIES: Final = 2_000  # of a directory
MAX_PREVIEW: Final = 2_000_000  # bytes of a file


def answer_tree(source: QuerySource, query: q.TreeQuery) -> q.TreeAnswer:
    session, workspace = source.sessions.get(query.session), source.services.workspace
    rel = workspace.to_relative(query.path or ".")
    found = (workspace if session is None else session.shadow).list_dir(rel)
    entries = {entry.name: entry.kind for entry in found}
    marks = {} if session is None else _collect_marks(rel, session)
    for name in marks.keys() - entries.keys():
        entries[name] = "file"
    above = "" if rel == "." else f"{rel}/"
    rows = [
        q.TreeEntry(
            name=name,
            kind=kind,
            ignored=source.ignore.is_ignored(above + name, kind == "directory"),
            mark=marks.get(name, ""),
        )
        for name, kind in sorted(entries.items(), key=lambda each: (each[1] != "directory", each[0].lower()))
        if above + name != ".git"
    ]
    return q.TreeAnswer(
        path="" if rel == "." else rel, entries=tuple(rows[:MAX_ENTRIES]), truncated=max(len(rows) - MAX_ENTRIES, 0)
    )


def _collect_marks(rel: str, session: Session) -> dict[str, str]:
    above = "" if rel == "." else f"{rel}/"
    marks: dict[str, str] = {}
    for path, change in session.review.changes.items():
        if path.startswith(above):
            name, slash, _ = path[len(above) :].partition("/")
            marks[name] = "edit" if slash else change.operation
    return marks


def answer_file(source: QuerySource, query: q.FileQuery) -> q.FileAnswer:
    session, workspace = source.sessions.get(query.session), source.services.workspace
    limit = max(1, min(query.max_bytes, MAX_PREVIEW))
    try:
        rel = workspace.to_relative(query.path)
        view = workspace if session is None or query.side == "workspace" else session.shadow
        stat = view.stat(rel)
        if stat is None:
            return q.FileAnswer(path=rel, text="", problem="There is no such file.")
        size = stat.size
        data = (view.read_bytes(rel, limit) if isinstance(view, Workspace) else view.read(rel, limit)) or b""
    except PathRefused as refused:
        return q.FileAnswer(path=query.path, text="", problem=refused.format_with_hint())
    text, problem = _decode_preview(data, size=size, limit=limit)
    return q.FileAnswer(path=rel, text=text, language=detect_language(rel), size=size, problem=problem)


def _decode_preview(data: bytes, *, size: int, limit: int) -> tuple[str, str]:
    """Return the text of a file and why there is none ("" = there is)."""
    if size > limit:
        return "", f"The file has {size:,} bytes; up to {limit:,} are shown."
    if b"\0" in data[:8192]:
        return "", f"A binary file of {size:,} bytes."
    try:
        return data.decode("utf-8-sig"), ""
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace"), ""


async def answer_find(source: QuerySource, query: q.FindQuery) -> q.FindAnswer:
    session = source.sessions.get(query.session)
    pending = [] if session is None else list(session.review.changes)
    paths = await source.files.find(query.pattern, limit=query.limit, directories=query.directories, extra=pending)
    return q.FindAnswer(paths=paths)
