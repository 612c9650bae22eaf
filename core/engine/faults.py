"""A fault of our own: its trace goes to standard error, the clients get one sentence, and the engine goes on."""

from __future__ import annotations

import contextlib
import sys
import traceback

from core.errors import AgentTuiError


def explained(fault: Exception) -> AgentTuiError:
    """The error to show for an exception that nobody expected. Never raises."""
    with contextlib.suppress(OSError, ValueError):  # nobody may be left to read it
        traceback.print_exception(fault, file=sys.stderr)
    text = f"internal fault: {type(fault).__name__}: {fault}"
    return AgentTuiError(text[:2_000], hint="Nothing of the session is lost; please report this.")
