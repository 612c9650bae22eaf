"""The content of an export, read from log and blobs; the session is not resumed, and nothing is written.

An export may be shared: keys, and texts that look like one, are masked, the home directory becomes `~`, and invisible
or misleading characters are marked as in the review.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from core.errors import ContentLost
from core.protocol import documents as d
from core.protocol import events as ev
from core.protocol.messages import Usage
from core.protocol.review import Change, Check, DiffLine, FileState, Hunk, Operation, Verdict, VerdictRecord
from core.records import convert, decode_json
from core.secrets import redact
from core.sessions.log import SessionLog, TakeEnvelope, read_log
from core.shadow.content.blob_store import BlobStore
from core.shadow.content.contents import Contents
from core.shadow.diff.diff_lines import build_diff
from core.shadow.diff.text_lines import is_binary
from core.state.fold import SHARED_STEPS, apply_event
from core.state.session import SessionState
from core.text.exposure import expose_text
from core.text.well_formed import convert_record


class ExportedTurn(Struct, frozen=True, kw_only=True, rename="camel"):
    """A turn of the conversation. Times in ms; `reason`: why it ended, "" = it runs; `cause`: as in `TurnStarted`."""

    prompt: str
    started: int
    mode: str
    model: str
    reason: str = ""
    duration_ms: int = 0
    usage: Usage = Usage()
    documents: tuple[d.AnyDocument, ...] = ()
    cause: ev.TurnCause = "prompt"


class ExportedChange(Struct, frozen=True, kw_only=True, rename="camel"):
    """Hunks of one file, and the verdict on them, None = they are pending. `lines`: the diff; `check`: the latest
    command that ran over this state of the change; `note`: facts besides the diff. `todos`: the todos of the hunks;
    `call`: the tool call that made the latest edit, "" = not known."""

    path: str
    operation: Operation
    verdict: Verdict | None = None
    at: int = 0
    reason: str = ""
    renamed_from: str = ""
    lines: tuple[DiffLine, ...] = ()
    note: str = ""
    check: Check | None = None
    todos: tuple[str, ...] = ()
    hunks: tuple[Hunk, ...] = ()
    call: str = ""


class ExportedSession(Struct, frozen=True, kw_only=True, rename="camel"):
    """A session. `changes`: verdicts in their order, then pending changes."""

    id: str
    title: str
    project: str
    branch: str
    model: str
    mode: str
    started: int
    updated: int
    tags: tuple[str, ...] = ()
    usage: Usage = Usage()
    turns: tuple[ExportedTurn, ...] = ()
    changes: tuple[ExportedChange, ...] = ()


class _Decision(Struct, frozen=True):
    """The time of a verdict, and the latest check of the change then."""

    at: int
    check: Check | None


class RecordReader(Struct, eq=False):
    """Folds a log, and collects what the fold drops: documents of earlier turns, times of verdicts."""

    state: SessionState
    documents: dict[int, list[d.Document]] = field(default_factory=dict)
    decisions: dict[str, _Decision] = field(default_factory=dict)

    def apply(self, envelope: ev.Envelope) -> None:
        event, turns = envelope.event, self.state.turns
        match event:
            case ev.TurnStarted() if turns:
                self.documents[turns[-1].seq] = turns[-1].list_finished_documents()
            case ev.VerdictGiven(verdict=verdict):
                change = self.state.changes.get(verdict.path)
                self.decisions[verdict.id] = _Decision(envelope.at, change.check if change is not None else None)
        apply_event(self.state, envelope, SHARED_STEPS)

    def list_documents(self, seq: int) -> tuple[d.Document, ...]:
        last = self.state.turns[-1]
        finished_documents = last.list_finished_documents() if last.seq == seq else []
        return tuple(finished_documents or self.documents.get(seq, []))


def read_export(directory: Path, log: SessionLog | None = None) -> ExportedSession:
    """Read the session in a directory, or from its open log, whose file may be gone. Raises `StateError`."""
    reader = RecordReader(SessionState(session_id=directory.name))
    read_records(directory, log, reader.apply)
    state, contents = reader.state, Contents(BlobStore(directory / "blobs"))
    turns = (
        ExportedTurn(
            prompt=turn.prompt,
            started=turn.started,
            mode=turn.mode,
            model=turn.model,
            reason=turn.reason,
            duration_ms=turn.duration_ms,
            usage=turn.usage,
            documents=reader.list_documents(turn.seq),
            cause=turn.cause,
        )
        for turn in state.turns
    )
    session = ExportedSession(
        id=directory.name,
        title=state.title or "Untitled",
        project=Path(state.workspace).name,
        branch=state.branch,
        model=state.model,
        mode=state.mode,
        started=state.started,
        updated=state.updated,
        tags=state.tags,
        usage=state.model_choices.sum_usage(),
        turns=tuple(turns),
        changes=(*_list_verdicts(state, reader.decisions, contents), *_list_pending(state, contents)),
    )
    return convert_record(session, partial(_clean, state.workspace))


def read_records(directory: Path, log: SessionLog | None, take: TakeEnvelope) -> None:
    """Pass every record of the session in a directory to `take`. Raises `StateError`."""
    if log is None:
        read_log(directory / "log.jsonl", take)
    else:
        log.read_all(take)


def _clean(workspace: str, text: str) -> str:
    """Return a text without keys, and without the paths of the project and the home directory."""
    home = str(Path.home())
    text = text.replace(workspace, ".") if len(workspace) > 1 else text
    return expose_text(redact(text.replace(home, "~") if len(home) > 1 else text))


def _list_verdicts(
    state: SessionState, decisions: Mapping[str, _Decision], contents: Contents
) -> Iterator[ExportedChange]:
    for record in state.review.verdicts:
        if record.settled is not None:
            continue
        decision = decisions.get(record.id, _Decision(0, None))
        change = _rebuild_change(record, contents)
        lines, note = _read_lines(change, contents) if change is not None else ((), "accepted or rejected as a whole")
        if not lines and record.excerpt:
            lines = tuple(_parse_excerpt(record.excerpt))
        yield ExportedChange(
            path=record.path,
            operation=change.operation if change is not None else "edit",
            verdict=record.verdict,
            at=decision.at,
            reason=record.reason,
            renamed_from=record.renamed_from,
            lines=lines,
            note=note,
            check=record.check or decision.check,
            todos=tuple(dict.fromkeys(hunk.todo for hunk in record.hunks if hunk.todo)),
            hunks=record.hunks,
            call=record.origin.call if record.origin is not None else "",
        )


def _rebuild_change(record: VerdictRecord, contents: Contents) -> Change | None:
    """Rebuild the change of a verdict from its hunks, None = the verdict was on a bulk."""
    if record.bulk is not None:
        return None
    base, pending = record.source or record.base_before, record.pending_before
    try:
        is_odd = is_binary(contents.read(base)) or is_binary(contents.read(pending))
    except ContentLost:
        is_odd = False
    return Change(
        path=record.path,
        operation=_name_operation(record, base, pending),
        base=base,
        pending=pending,
        hunks=record.hunks,
        binary=is_odd,
        renamed_from=record.renamed_from,
    )


def _name_operation(record: VerdictRecord, base: FileState, pending: FileState) -> Operation:
    if record.renamed_from:
        return "rename"
    if base.kind == "absent":
        return "create"
    return "delete" if pending.kind == "absent" else "edit"


def _list_pending(state: SessionState, contents: Contents) -> Iterator[ExportedChange]:
    for change in state.changes.values():
        lines, note = _read_lines(change, contents)
        yield ExportedChange(
            path=change.path,
            operation=change.operation,
            renamed_from=change.renamed_from,
            lines=lines,
            note="; ".join(filter(None, (note, change.conflict and f"conflict: {change.conflict}"))),
            check=change.check,
            todos=tuple(dict.fromkeys(hunk.todo for hunk in change.hunks if hunk.todo)),
            hunks=change.hunks,
            call=change.origin.call if change.origin is not None else "",
        )


def _read_lines(change: Change, contents: Contents) -> tuple[tuple[DiffLine, ...], str]:
    try:
        diff = build_diff(change, *contents.read_change(change), width=0)
    except (ContentLost, IndexError):  # IndexError: hunks of another text, which is lost
        return (), "its lines are not saved"
    return diff.lines, diff.note


def _parse_excerpt(excerpt: str) -> Iterator[DiffLine]:
    for line in excerpt.split("\n"):
        kind: Any = {"-": "removed", "+": "added"}.get(line[:1], "gap")
        yield DiffLine(kind=kind, old=0, new=0, text=line[1:] if kind != "gap" else line)


def format_json(session: ExportedSession) -> str:
    """Return an export as JSON."""
    return msgspec.json.format(msgspec.json.encode(session), indent=2).decode() + "\n"


def parse_json(text: str) -> ExportedSession:
    """Parse an export in JSON. Raises `msgspec.MsgspecError`."""
    return convert(decode_json(text), ExportedSession)
