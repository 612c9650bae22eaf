"""The effort of the model, and the page that shows which model does what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, get_args

from textual.content import Content

from core.protocol.commands import EffortSet
from core.protocol.messages import Effort, Usage
from core.protocol.models import RouteRow
from core.protocol.queries import RoutesAnswer, RoutesQuery
from tui.screens.dialogs.pages import PageDialog
from tui.screens.dialogs.picker import PickerDialog, PickerOption
from tui.text import fit_line
from tui.widgets.status_bar import format_cost, format_count
from tui.widgets.text_rows import find_line_breaks

if TYPE_CHECKING:
    from tui.screens.actions import ActingScreen

EFFORT_LEVELS: Final[tuple[Effort, ...]] = get_args(Effort)
DEFAULT_EFFORT: Final = "default"
NAME_COLUMNS: Final = 14  # columns
MUTED: Final = "$foreground 60%"
JOB_NOTES: Final = {
    "chat": "the conversation",
    "apply": "fits edits into files",
    "small": "summaries",
    "embed": "search by meaning",
    "subagent": "todos in parallel",
}


async def change_effort(screen: ActingScreen, level: str) -> None:
    """Set an effort by its name; without one, or with a wrong one, ask with a list."""
    if level and level not in (*EFFORT_LEVELS, DEFAULT_EFFORT):
        screen.notify_user(
            f"There is no effort {level!r}.",
            f"There are {', '.join(EFFORT_LEVELS)}, and {DEFAULT_EFFORT}.",
            is_error=True,
        )
        return
    if not level:
        level = await _pick_effort(screen)
    if level:
        effort: Effort | Literal[""] = next((each for each in EFFORT_LEVELS if each == level), "")
        if await screen.submit(EffortSet(effort=effort)) and screen.state.is_running:
            screen.notify_user("The next turn begins with it.")


async def _pick_effort(screen: ActingScreen) -> str:
    """Return the effort that was chosen, "" = none."""
    found = await screen.bridge.query(RoutesQuery())
    row = found.rows[0] if isinstance(found, RoutesAnswer) and found.rows else RouteRow(job="chat")
    choices = [PickerOption(DEFAULT_EFFORT, DEFAULT_EFFORT, "what is configured, else the model's own")]
    choices += [PickerOption(each, each, "" if each in row.efforts else "not of this model") for each in EFFORT_LEVELS]
    about = "" if row.efforts else f"{row.model or 'This model'} has no effort to choose, as far as is known."
    title = f"Effort of {fit_line(row.model, 50)}" if row.model else "Effort"
    return (
        await screen.app.push_screen_wait(
            PickerDialog(title, choices, current=row.effort or DEFAULT_EFFORT, about=about)
        )
        or ""
    )


async def show_routes(screen: ActingScreen) -> None:
    """Show which model does what."""
    found = await screen.bridge.query(RoutesQuery())
    if isinstance(found, RoutesAnswer):
        _ = screen.app.push_screen(build_routes_page(found))
    else:
        screen.notify_user(getattr(found, "message", "That can't be told now."), is_error=True)


def build_routes_page(table: RoutesAnswer) -> PageDialog:
    """Build the page of which model does what, and what it has cost in this session."""
    return PageDialog("Who does what", lambda width: render_routes(table, width))


def render_routes(table: RoutesAnswer, width: int) -> Content:
    """Render each job with its model and notes, and what was used, by model."""
    parts: list[tuple[str, str]] = []
    for row in table.rows:
        name = f"{row.mode.capitalize()} mode" if row.mode else row.job
        model = row.model if row.own else "as chat"
        lines = [(model or "nothing does this yet", "" if row.model and row.own else MUTED)]
        lines += [(line, MUTED) for line in _describe_route(row, table)]
        for each in row.taken:
            whose = f" ({each.model})" if each.model != row.model else ""
            lines.append((f"{_format_usage(each.usage)}{whose}", "$success"))
        for number, (line, style) in enumerate(_wrap_lines(lines, width - NAME_COLUMNS)):
            parts += [
                ("" if number else f"{name:<{NAME_COLUMNS}}", "bold $accent"),
                (f"{'':<{NAME_COLUMNS if number else 0}}", ""),
            ]
            parts.append((f"{line}\n", style))
    total = _wrap_lines([(_format_total(table), "bold")], width)
    return Content.assemble(*parts, *((f"\n{line}", style) for line, style in total))


def _wrap_lines(lines: list[tuple[str, str]], width: int) -> list[tuple[str, str]]:
    """Wrap the lines to `width` columns."""
    found = []
    for text, style in lines:
        flat = fit_line(text, 400)
        found += [(flat[start:end].strip(), style) for start, end in find_line_breaks(flat, max(width, 10))]
    return found


def _describe_route(row: RouteRow, table: RoutesAnswer) -> list[str]:
    said = [] if row.mode else [JOB_NOTES[row.job]]
    if not row.model or not row.own:
        return said
    effort = f"effort {row.effort or 'by default'}" + (f" (it has no {row.wanted})" if row.wanted else "")
    window = f"window {format_count(row.context_window)}" if row.context_window else "window not known"
    said.append(", ".join((effort, window, "price known" if row.priced else "price not known")))
    if row.fallback:
        said.append(f"else {', '.join(row.fallback)}")
    if table.answering and row.job == "chat" and not row.mode:
        said.append(f"now answers: {table.answering}")
    return said


def _format_usage(usage: Usage) -> str:
    cost = format_cost(usage.cost) if usage.cost is not None else "cost not known"
    return f"{format_count(usage.prompt_tokens)} in, {format_count(usage.completion_tokens)} out, {cost}"


def _format_total(table: RoutesAnswer) -> str:
    taken = [each.usage for row in table.rows for each in row.taken]
    if not taken:
        return "Nothing was asked in this session yet."
    costs = [usage.cost for usage in taken if usage.cost is not None]
    tokens = sum(usage.prompt_tokens + usage.completion_tokens for usage in taken)
    unknown = " and what is not known" if len(costs) < len(taken) else ""
    return f"This session: {format_count(tokens)} tokens, {format_cost(sum(costs))}{unknown}"
