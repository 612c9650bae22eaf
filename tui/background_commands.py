"""Background commands (jobs) in words: those that would end with the session, and how others ended."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from core.protocol.events import JobEnded, JobStarted
from core.text.counting import count
from tui.text import expose_line, fit_line

MAX_NAMED: Final = 3  # running commands that are named
MAX_COMMAND: Final = 60  # columns of a command in a sentence


def describe_end(event: JobEnded) -> str:
    """Describe in two or three words how a background command ended."""
    return f"exit code {event.exit_code}" if event.exit_code is not None else event.ended.replace("_", " ")


def describe_job_end(event: JobEnded) -> str:
    """Describe the end of a background command in one line, without a full stop."""
    verb = "failed" if event.is_failure else "ended"
    return f"{event.id} {verb} ({describe_end(event)}): {fit_line(event.command, 200)}"


def describe_running(jobs: Collection[JobStarted], leaving: str = "Quit") -> str:
    """Describe in two sentences the background commands that `leaving` would end; "" = none runs."""
    if not jobs:
        return ""
    names = [f"`{expose_line(job.command, MAX_COMMAND, is_strict=True)}`" for job in jobs][:MAX_NAMED]
    if len(jobs) == 1:
        job = next(iter(jobs))
        return f"{names[0]} is still running ({job.id}). {leaving} ends it."
    if len(jobs) > MAX_NAMED:
        names.append(f"{len(jobs) - MAX_NAMED} more")
    listed = f"{', '.join(names[:-1])} and {names[-1]}"
    return f"{count('background command', len(jobs))} are still running: {listed}. {leaving} ends them."
