"""How much the model thinks, chosen by name or from a list, and the page that says who does what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, get_args

from textual.content import Content

from core.protocol.commands import EffortSet
from core.protocol.messages import Effort, Usage
from core.protocol.models import RouteRow
from core.protocol.queries import RoutesQuery, RoutesTable
from tui.screens.notes import Page
from tui.screens.picker import Choice, Picker
from tui.text import one_line
from tui.widgets.rows import breaks
from tui.widgets.status import compact, dollars

if TYPE_CHECKING:
    from tui.screens.actions import ActingScreen

EFFORTS: Final[tuple[Effort, ...]] = get_args(Effort)
DEFAULT: Final = "default"
NAME: Final = 14  # columns
MUTED: Final = "$foreground 60%"
JOBS: Final = {
    "chat": "the conversation",
    "apply": "fits edits into files",
    "small": "summaries",
    "embed": "search by meaning",
    "subagent": "todos in parallel",
}


async def change_effort(screen: ActingScreen, level: str) -> None:
    """Set an effort by its name; without one, or with a wrong one, from a list."""
    if level and level not in (*EFFORTS, DEFAULT):
        screen.say(f"There is no effort {level!r}.", f"There are {', '.join(EFFORTS)}, and {DEFAULT}.", is_error=True)
        return
    if not level:
        level = await _picked(screen)
    if level:
        effort: Effort | Literal[""] = next((each for each in EFFORTS if each == level), "")
        if await screen.deliver(EffortSet(effort=effort)) and screen.state.running:
            screen.say("The next turn begins with it.")


async def _picked(screen: ActingScreen) -> str:
    """The effort that was chosen, "" = none."""
    found = await screen.bridge.query(RoutesQuery())
    row = found.rows[0] if isinstance(found, RoutesTable) and found.rows else RouteRow(job="chat")
    choices = [Choice(DEFAULT, DEFAULT, "what is configured, else the model's own")]
    choices += [Choice(each, each, "" if each in row.efforts else "not of this model") for each in EFFORTS]
    about = "" if row.efforts else f"{row.model or 'This model'} has no effort to choose, as far as is known."
    title = f"Effort of {one_line(row.model, 50)}" if row.model else "Effort"
    return await screen.app.push_screen_wait(Picker(title, choices, current=row.effort or DEFAULT, about=about)) or ""


async def show_routes(screen: ActingScreen) -> None:
    """The page of who does what."""
    found = await screen.bridge.query(RoutesQuery())
    if isinstance(found, RoutesTable):
        _ = screen.app.push_screen(routes_page(found))
    else:
        screen.say(getattr(found, "message", "That can't be told now."), is_error=True)


def routes_page(table: RoutesTable) -> Page:
    """Who does what, and what it has cost in this session."""
    return Page("Who does what", lambda width: routes_text(table, width))


def routes_text(table: RoutesTable, width: int) -> Content:
    """Each job with its model, and below it what there is to say of it; what was taken, by model."""
    parts: list[tuple[str, str]] = []
    for row in table.rows:
        name = f"{row.mode.capitalize()} mode" if row.mode else row.job
        model = row.model if row.own else "as chat"
        lines = [(model or "nothing does this yet", "" if row.model and row.own else MUTED)]
        lines += [(line, MUTED) for line in _about(row, table)]
        for each in row.taken:
            whose = f" ({each.model})" if each.model != row.model else ""
            lines.append((f"{_used(each.usage)}{whose}", "$success"))
        for number, (line, style) in enumerate(_wrapped(lines, width - NAME)):
            parts += [("" if number else f"{name:<{NAME}}", "bold $accent"), (f"{'':<{NAME if number else 0}}", "")]
            parts.append((f"{line}\n", style))
    total = _wrapped([(_total(table), "bold")], width)
    return Content.assemble(*parts, *((f"\n{line}", style) for line, style in total))


def _wrapped(lines: list[tuple[str, str]], width: int) -> list[tuple[str, str]]:
    """The same lines, none of which is wider than that."""
    found = []
    for text, style in lines:
        flat = one_line(text, 400)
        found += [(flat[start:end].strip(), style) for start, end in breaks(flat, max(width, 10))]
    return found


def _about(row: RouteRow, table: RoutesTable) -> list[str]:
    said = [] if row.mode else [JOBS[row.job]]
    if not row.model or not row.own:
        return said
    effort = f"effort {row.effort or 'by default'}" + (f" (it has no {row.wanted})" if row.wanted else "")
    window = f"window {compact(row.context_window)}" if row.context_window else "window not known"
    said.append(", ".join((effort, window, "price known" if row.priced else "price not known")))
    if row.fallback:
        said.append(f"else {', '.join(row.fallback)}")
    if table.answering and row.job == "chat" and not row.mode:
        said.append(f"now answers: {table.answering}")
    return said


def _used(usage: Usage) -> str:
    cost = dollars(usage.cost) if usage.cost is not None else "cost not known"
    return f"{compact(usage.prompt_tokens)} in, {compact(usage.completion_tokens)} out, {cost}"


def _total(table: RoutesTable) -> str:
    taken = [each.usage for row in table.rows for each in row.taken]
    if not taken:
        return "Nothing was asked in this session yet."
    costs = [usage.cost for usage in taken if usage.cost is not None]
    tokens = sum(usage.prompt_tokens + usage.completion_tokens for usage in taken)
    unknown = " and what is not known" if len(costs) < len(taken) else ""
    return f"This session: {compact(tokens)} tokens, {dollars(sum(costs))}{unknown}"
