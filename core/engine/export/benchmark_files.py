"""A session as the files that benchmarks read: ATIF, mini-swe-agent's trajectory, and predictions for SWE-bench.

Keys are masked in all of them, and the paths of the project and the home directory are `.` and `~`; invisible
characters stay as they are, since these are records for programs. The patch is what the session changed, to the byte.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Struct, field

from core import __version__
from core.engine.export.blocks import SIGNS
from core.engine.export.record import ExportedChange, ExportedSession, RecordReader, read_export, read_records
from core.engine.export.trajectory import Extra, Step, Trajectory, read_trajectory
from core.errors import AgentTuiError, StateError
from core.protocol import events as ev
from core.protocol.review import CACHES
from core.secrets import redact
from core.sessions.log import SessionLog
from core.shadow.commits.patch_text import render_session_patch
from core.shadow.content.blob_store import BlobStore
from core.shadow.content.contents import Contents
from core.state.session import SessionState
from core.text.well_formed import convert_record

MINI_FORMAT: Final = "mini-swe-agent-1.1"
# What mini-swe-agent calls the ends of a run.
_EXITS: Final = {"done": "Submitted", "limit": "LimitsExceeded", "interrupted": "Interrupted", "failed": "Error"}


class SessionPatch(NamedTuple):
    """The patch of a session, with the paths of which it has nothing, and why."""

    text: str
    left_out: dict[str, str]
    state: SessionState


class _EditReader(Struct, eq=False):
    """Folds a log, and collects what commands wrote in place, which is in no verdict. `order`: the ids of verdicts and
    of these writes, as they came; `touched`: the paths that the last command in place changed."""

    reader: RecordReader
    order: list[str] = field(default_factory=list)
    written: dict[str, ev.FileWritten] = field(default_factory=dict)
    touched: set[str] = field(default_factory=set)

    def apply(self, envelope: ev.Envelope) -> None:
        """Take in a record."""
        match envelope.event:
            case ev.VerdictGiven(verdict=verdict):
                self.order.append(verdict.id)
            case ev.EffectsRecorded(in_place=True) as effects:
                self.touched = {*effects.created, *effects.edited, *effects.deleted}
            case ev.FileWritten(path=path) as written if path in self.touched and not CACHES & {*path.split("/")}:
                name = f"write_{envelope.seq}"
                self.order.append(name)
                self.written[name] = written
                self.touched.discard(path)
            case _:
                pass
        self.reader.apply(envelope)


def read_patch(directory: Path, log: SessionLog | None = None) -> SessionPatch:
    """Read everything that a session changed, pending or accepted, as one patch. Raises `StateError`."""
    reader = _EditReader(RecordReader(SessionState(session_id=directory.name)))
    read_records(directory, log, reader.apply)
    state, contents = reader.reader.state, Contents(BlobStore(directory / "blobs"))
    try:
        patch, left_out = render_session_patch(
            Path(state.workspace), state.review, contents, reader.written, reader.order
        )
    except (AgentTuiError, OSError) as problem:
        raise StateError(f"the session's patch can't be made: {problem}.", code="patch_failed") from problem
    return SessionPatch(patch.decode("utf-8", "replace"), left_out, state)


def format_predictions(patch: SessionPatch, instance: str) -> str:
    """Return the patch as SWE-bench's predictions: one for the instance, "" = the name of the project."""
    name = instance or Path(patch.state.workspace).name
    prediction = {"model_name_or_path": patch.state.model, "instance_id": name, "model_patch": patch.text}
    return _format({name: prediction})


def format_atif(directory: Path, log: SessionLog | None = None) -> str:
    """Return a session as a trajectory with its verdicts and checks. Raises `StateError`."""
    trajectory, session = _read_masked(directory, log)
    changes = [_describe_change(change) for change in session.changes]
    if changes:
        trajectory.extra = {**(trajectory.extra or {}), "changes": changes}
    calls = {call.tool_call_id: call for step in _list_all_steps(trajectory) for call in step.tool_calls or ()}
    for change in session.changes:
        if (call := calls.get(change.call)) is not None:
            verdicts = [{"path": change.path, "id": hunk.id, "verdict": _name_verdict(change)} for hunk in change.hunks]
            call.extra = {**(call.extra or {}), "hunks": [*(call.extra or {}).get("hunks", ()), *verdicts]}
    return _format(trajectory)


def _read_masked(directory: Path, log: SessionLog | None) -> tuple[Trajectory, ExportedSession]:
    state = SessionState(session_id=directory.name)
    reader = RecordReader(state)
    read_records(directory, log, reader.apply)
    trajectory = convert_record(read_trajectory(directory, log), partial(_mask, _compile_place(state.workspace)))
    return trajectory, read_export(directory, log)


def _compile_place(workspace: str) -> re.Pattern[str] | None:
    """Return the pattern of a project's path, which is no part of a longer name; None = it is the root of all."""
    return re.compile(rf"(?<![\w.-]){re.escape(workspace)}(?![\w-]|\.\w)") if len(workspace) > 1 else None


def _mask(place: re.Pattern[str] | None, text: str) -> str:
    home = str(Path.home())
    if place is not None:
        text = place.sub(".", text)
    if len(home) > 1 and home in text:
        text = re.sub(rf"{re.escape(home)}(?![\w-]|\.\w)", "~", text)
    return redact(text)


def _list_all_steps(trajectory: Trajectory) -> Iterator[Step]:
    yield from trajectory.steps
    for child in trajectory.subagent_trajectories or ():
        yield from _list_all_steps(child)


def _name_verdict(change: ExportedChange) -> str:
    return change.verdict or "pending"


def _describe_change(change: ExportedChange) -> Extra:
    """Return the hunks of a file with the verdict on them and the evidence for it."""
    rows = [f"@@ {row.text} @@" if row.kind == "gap" else f"{SIGNS[row.kind]}{row.text}" for row in change.lines]
    facts: Extra = {
        "path": change.path,
        "operation": change.operation,
        "renamed_from": change.renamed_from,
        "verdict": _name_verdict(change),
        "reason": change.reason,
        "tool_call_id": change.call,
        "hunks": [msgspec.to_builtins(hunk) for hunk in change.hunks],
        "check": msgspec.to_builtins(change.check) if change.check is not None else None,
        "todos": list(change.todos),
        "note": change.note,
        "diff": "\n".join(rows),
    }
    return {name: value for name, value in facts.items() if value}


def format_mini(directory: Path, log: SessionLog | None, patch: SessionPatch, instance: str) -> str:
    """Return a session as mini-swe-agent writes its own. Raises `StateError`."""
    trajectory, session = _read_masked(directory, log)
    reason = session.turns[-1].reason if session.turns else ""
    end = {"exit_status": _EXITS.get(reason, reason), "submission": patch.text}
    messages = [message for step in trajectory.steps for message in _list_messages(step)]
    metrics = trajectory.final_metrics
    answers = sum(step.llm_call_count or 0 for step in _list_all_steps(trajectory))
    info: dict[str, Any] = {
        "model_stats": {"instance_cost": metrics.total_cost_usd or 0.0, "api_calls": answers},
        "config": {
            "agent": {"mode": session.mode},
            "agent_type": "agent-tui",
            "model": {"model_name": session.model, "model_kwargs": {}},
            "environment": {"cwd": "."},
        },
        "mini_version": f"agent-tui {__version__}",
    }
    return _format(
        {
            "info": info | end,
            "instance_id": instance or session.project,
            "messages": [*messages, {"role": "exit", "content": patch.text, "extra": end}],
            "trajectory_format": MINI_FORMAT,
        }
    )


def _list_messages(step: Step) -> Iterator[dict[str, Any]]:
    """Yield a step as messages of a chat: an answer, then the results of its calls."""
    facts: Extra = {"timestamp": step.timestamp} if step.timestamp else {}
    results = step.observation.results if step.observation is not None else []
    if step.source != "agent":
        role = "system" if step.timestamp is None else "user"  # the system prompt is no event, so it has no time
        yield {"role": role, "content": step.message, "extra": facts}
    else:
        yield _build_answer(step, facts)
    for result in results:
        message = {"role": "tool", "tool_call_id": result.source_call_id} if result.source_call_id else {"role": "user"}
        has_failed = bool((result.extra or {}).get("is_error"))
        yield {**message, "content": result.content or "", "extra": {**facts, "returncode": int(has_failed)}}


def _build_answer(step: Step, facts: Extra) -> dict[str, Any]:
    metrics, calls = step.metrics, step.tool_calls or []
    usage: Extra = {}
    if metrics is not None:
        usage = {
            "prompt_tokens": metrics.prompt_tokens,
            "completion_tokens": metrics.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": metrics.cached_tokens},
        }
    actions = [
        {"command": _name_action(call.function_name, call.arguments), "tool_call_id": call.tool_call_id}
        for call in calls
    ]
    extra = {**facts, "actions": actions, "cost": metrics.cost_usd or 0.0 if metrics is not None else 0.0}
    message: dict[str, Any] = {"role": "assistant", "content": step.message}
    if calls:
        message["tool_calls"] = [
            {
                "id": call.tool_call_id,
                "type": "function",
                "function": {"name": call.function_name, "arguments": _encode(call.arguments)},
            }
            for call in calls
        ]
    if step.reasoning_content:
        message["reasoning_content"] = step.reasoning_content
    response = {"model": step.model_name, "usage": usage}
    return {**message, "extra": {**extra, "response": response}}


def _name_action(tool: str, arguments: dict[str, Any]) -> str:
    """Return a call as the one command that a reader of mini-swe-agent's files expects."""
    command = arguments.get("command")
    return command if isinstance(command, str) else f"{tool} {_encode(arguments)}"


def _encode(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _format(record: object) -> str:
    return msgspec.json.format(msgspec.json.encode(record), indent=2).decode() + "\n"


def describe_left_out(patch: SessionPatch) -> tuple[str, ...]:
    """Return a line about every path that the patch has nothing of."""
    return tuple(f"left out  {path} ({reason})" for path, reason in patch.left_out.items())
