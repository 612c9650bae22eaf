"""The progress of the project's index in words: for the status bar, the search and `/index`."""

from __future__ import annotations

from typing import Final

from core.protocol.events import IndexStatus
from core.text.counting import count
from core.text.display_names import shorten_model
from tui.text import fit_line

REMEDY: Final = "`agent-tui index build` rebuilds it."


def describe_progress(status: IndexStatus) -> str:
    """Describe in a few words the limits of a search, or why it is unavailable; "" = the index is ready."""
    match status.state:
        case "building":
            return f"indexing {status.indexed:,} of {count('file', status.files)}" if status.files else "indexing"
        case "failed":
            return f"the index failed: {fit_line(status.problem, 200)}" if status.problem else "the index failed"
        case "off":
            return f"no index: {fit_line(status.problem, 200)}" if status.problem else "no index"
        case "ready":
            return ""


def format_progress(status: IndexStatus) -> tuple[str, str]:
    """Format the index's progress for the status bar, with a style; "" = nothing to report."""
    if status.state == "building" and status.files:
        return f"indexing {status.indexed:,}/{status.files:,}", "$foreground 60%"
    if status.state == "failed":
        return "index failed · /index", "$warning"
    return ("indexing", "$foreground 60%") if status.state == "building" else ("", "")


def describe_search_limits(status: IndexStatus) -> str:
    """Describe the limits of a completed search: why the model of the `embed` route was not used, or the index's
    error; "" = none."""
    if status.state != "ready" or not status.problem:
        return ""
    name = fit_line(shorten_model(status.model), 60)
    coverage = f"{name} knows {status.known_to_model:,} of {count('piece', status.chunks)}. "
    return f"{coverage if status.model else ''}{fit_line(status.problem, 200)}"


def describe_index(status: IndexStatus) -> tuple[str, str]:
    """Describe the index for `/index`, and a remedy ("" = none needed)."""
    if progress := describe_progress(status):
        message = f"{progress[0].upper()}{progress[1:]}."
        if status.state == "building":
            return f"{message} Searches cover what is indexed so far.", ""
        return message, REMEDY if status.state == "failed" else ""
    share = status.embedded / status.chunks if status.chunks else 1.0
    coverage = "" if share >= 1.0 else f", {share:.0%} searchable by meaning so far"
    problem = f" {fit_line(status.problem, 200)}" if status.problem else ""
    if status.model:
        problem = f" {fit_line(shorten_model(status.model), 60)} knows {status.known_to_model:,} of them.{problem}"
    return (
        f"The index is ready: {count('file', status.indexed)}, {count('piece', status.chunks)}{coverage}.{problem}",
        "",
    )
