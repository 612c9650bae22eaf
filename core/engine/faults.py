"""A fault of our own: its trace is kept, the clients get two sentences, and the engine goes on."""

from __future__ import annotations

from core.errors import AgentTuiError
from core.faults import keep, told
from core.secrets import redact


def explained(fault: Exception) -> AgentTuiError:
    """The error to show for an exception that nobody expected. Never raises."""
    text = f"internal fault: {type(fault).__name__}: {fault}"
    return AgentTuiError(
        redact(text[:2_000]), hint=f"Nothing of the session is lost. {told(keep(fault, 'the engine'))}"
    )
