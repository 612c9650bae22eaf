"""Internal faults: the trace is kept, clients get two sentences, and the engine goes on."""

from __future__ import annotations

from core.crash_reports import describe_crash_report, save_crash_report
from core.errors import AgentTuiError
from core.secrets import redact


def explain_fault(fault: Exception) -> AgentTuiError:
    """Return the error to show for an exception: itself if it is one of ours. Never raises."""
    if isinstance(fault, AgentTuiError):
        return fault
    text = f"internal fault: {type(fault).__name__}: {fault}"
    return AgentTuiError(
        redact(text[:2_000]),
        hint=f"Nothing of the session is lost. {describe_crash_report(save_crash_report(fault, 'the engine'))}",
    )
