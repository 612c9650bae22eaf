"""The page that shows which model does what, and what it has cost."""

from __future__ import annotations

from typing import Final

from textual.content import Content

from core.protocol.messages import Usage
from core.protocol.models import RouteRow
from core.protocol.queries import RoutesAnswer
from tui.quantities import format_cost, format_count
from tui.screens.dialogs.pages import PageDialog
from tui.text import fit_line
from tui.widgets.text_rows import find_line_breaks

NAME_COLUMNS: Final = 14  # columns
MUTED: Final = "$foreground 60%"
JOB_NOTES: Final = {
    "chat": "the conversation",
    "apply": "fits edits into files",
    "small": "summaries",
    "embed": "search by meaning",
    "subagent": "todos in parallel",
}


def build_routes_page(table: RoutesAnswer) -> PageDialog:
    return PageDialog("Who does what", lambda width: render_routes(table, width))


def render_routes(table: RoutesAnswer, width: int) -> Content:
    """Render each job with its model and notes, and what was used, by model."""
    parts: list[tuple[str, str]] = []
    for row in table.rows:
        name = f"{row.mode.capitalize()} mode" if row.mode else row.job
        model = row.model if row.own else "as chat"
        lines = [(model or "nothing does this yet", "" if row.model and row.own else MUTED)]
        lines += [(line, MUTED) for line in _describe_route(row, table)]
        for model_usage in row.taken:
            whose = f" ({model_usage.model})" if model_usage.model != row.model else ""
            lines.append((f"{_format_usage(model_usage.usage)}{whose}", "$success"))
        for number, (line, style) in enumerate(_wrap_lines(lines, width - NAME_COLUMNS)):
            parts.append((f"{'' if number else name:<{NAME_COLUMNS}}", "" if number else "bold $accent"))
            parts.append((f"{line}\n", style))
    total = _wrap_lines([(_format_total(table), "bold")], width)
    return Content.assemble(*parts, *((f"\n{line}", style) for line, style in total))


def _wrap_lines(lines: list[tuple[str, str]], width: int) -> list[tuple[str, str]]:
    wrapped_lines = []
    for text, style in lines:
        flat = fit_line(text, 400)
        wrapped_lines += [(flat[start:end].strip(), style) for start, end in find_line_breaks(flat, max(width, 10))]
    return wrapped_lines


def _describe_route(row: RouteRow, table: RoutesAnswer) -> list[str]:
    notes = [] if row.mode else [JOB_NOTES[row.job]]
    if not row.model or not row.own:
        return notes
    effort = f"effort {row.effort or 'by default'}" + (f" (it has no {row.wanted})" if row.wanted else "")
    window = f"window {format_count(row.context_window)}" if row.context_window else "window not known"
    notes.append(", ".join((effort, window, "price known" if row.priced else "price not known")))
    if row.fallback:
        notes.append(f"else {', '.join(row.fallback)}")
    if table.answering and row.job == "chat" and not row.mode:
        notes.append(f"now answers: {table.answering}")
    return notes


def _format_usage(usage: Usage) -> str:
    cost = format_cost(usage.cost) if usage.cost is not None else "cost not known"
    return f"{format_count(usage.prompt_tokens)} in, {format_count(usage.completion_tokens)} out, {cost}"


def _format_total(table: RoutesAnswer) -> str:
    usages = [model_usage.usage for row in table.rows for model_usage in row.taken]
    if not usages:
        return "Nothing was asked in this session yet."
    costs = [usage.cost for usage in usages if usage.cost is not None]
    tokens = sum(usage.prompt_tokens + usage.completion_tokens for usage in usages)
    unknown = " and what is not known" if len(costs) < len(usages) else ""
    return f"This session: {format_count(tokens)} tokens, {format_cost(sum(costs))}{unknown}"
