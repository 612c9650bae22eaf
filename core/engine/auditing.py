"""Which events the audit log records, and which of their fields."""

from __future__ import annotations

from core.permissions.audit import AuditLog
from core.protocol import events as ev


def record_audit_entry(log: AuditLog, event: ev.AnyEvent) -> None:
    """Record the event if it concerns the audit log. Raises `StateError` when the log can't be written."""
    found = build_audit_entry(event)
    if found is not None:
        log.record(*found)


def build_audit_entry(event: ev.AnyEvent) -> tuple[str, dict[str, object]] | None:
    """Return the kind and data of the event's line in the audit log; None = it has none."""
    match event:
        case ev.ApprovalRequested():
            return "approval.asked", {
                "id": event.id,
                "call": event.call,
                "kind": event.kind,
                "subject": event.subject,
                "directory": event.directory,
                "mode": event.mode,
                "network": event.network,
                "environment": event.environment,
                "digest": event.digest,
            }
        case ev.ApprovalResolved():
            return "approval.answered", {
                "id": event.id,
                "decision": event.decision,
                "by": event.by,
                "pattern": event.pattern,
            }
        case ev.TrustStated():
            return "trust", {"state": event.state, "directory": event.directory}
        case ev.EffectsRecorded() | ev.JobStarted() | ev.CommandRan() | ev.FileWritten():
            return _build_effect_entry(event)
        case _:
            return None


def _build_effect_entry(
    event: ev.EffectsRecorded | ev.JobStarted | ev.CommandRan | ev.FileWritten,
) -> tuple[str, dict[str, object]]:
    match event:
        case ev.EffectsRecorded():
            return "command.ended", {"call": event.call, "command": event.command, "discarded": event.discarded}
        case ev.JobStarted():
            return "job.started", {"call": event.call, "id": event.id, "command": event.command}
        case ev.CommandRan():
            return "command.of_user", {"id": event.id, "command": event.command, "exit_code": event.exit_code}
        case ev.FileWritten():
            return "file.written", {"path": event.path}
