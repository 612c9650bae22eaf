"""Who does what: the model of each job with its effort and fallbacks, and what it has taken in a session."""

from __future__ import annotations

from typing import get_args

from core.config import Settings
from core.engine.models import ModelAccess
from core.engine.routes import clamped, wanted
from core.modes import Mode
from core.protocol.messages import Job, Usage
from core.protocol.models import ModelTaken, RouteRow
from core.protocol.queries import RoutesTable
from core.sessions.fold import SessionState

JOBS: tuple[Job, ...] = get_args(Job)


def route_table(settings: Settings, models: ModelAccess, state: SessionState | None, default: str = "") -> RoutesTable:
    """A row for each job, and for each mode with a model or an effort of its own. May take its time (prices).

    `default`: the model of a session that would begin now, where there is none to look at.
    """
    if state is None:
        route = settings.route("chat")
        model, effort = route.model or default, str(route.effort)
    else:
        model, effort = wanted(state, settings)
    rows = [_row("chat", model, effort, settings, models)]
    rows += _of_modes(settings, models, model)
    for job in JOBS:
        if job != "chat":
            rows.append(_beside(job, model, settings, models))
    taken = _taken(state)
    rows = [_with_usage(row, taken) for row in rows]
    now = state.chosen.route if state is not None else None
    return RoutesTable(rows=tuple(rows), answering=now.model if now is not None and now.instead_of else "")


def _of_modes(settings: Settings, models: ModelAccess, model: str) -> list[RouteRow]:
    found = []
    for mode in Mode:
        own = settings.mode_of(mode.value)
        if own.model or own.effort:
            effort = own.effort or settings.route("chat").effort
            row = _row("chat", own.model or model, effort, settings, models)
            found.append(_replaced(row, mode=mode.value, fallback=()))
    return found


def _beside(job: Job, chat: str, settings: Settings, models: ModelAccess) -> RouteRow:
    route = settings.route(job)
    if not route.model and job == "embed":
        return RouteRow(job=job)
    row = _row(job, route.model or chat, route.effort, settings, models)
    return row if route.model else _replaced(row, own=False, fallback=())


def _row(job: Job, model: str, effort: str, settings: Settings, models: ModelAccess) -> RouteRow:
    if not model:
        return RouteRow(job=job)
    able = models.capabilities(model, settings)
    took = clamped(effort, able)
    return RouteRow(
        job=job,
        model=model,
        effort=took,
        wanted=effort if took != effort else "",
        efforts=able.efforts,
        fallback=settings.route(job).fallback,
        context_window=settings.context.window or able.context_window or models.window(model),
        priced=models.cost(model, Usage(prompt_tokens=1_000, completion_tokens=1_000)) is not None,
    )


def _replaced(row: RouteRow, **fields: object) -> RouteRow:
    from msgspec.structs import replace

    return replace(row, **fields)


def _taken(state: SessionState | None) -> dict[str, list[ModelTaken]]:
    """Usage of the session by job."""
    found: dict[str, list[ModelTaken]] = {}
    for key, usage in state.chosen.taken.items() if state is not None else ():
        job, _, model = key.partition(" ")
        found.setdefault(job, []).append(ModelTaken(model=model, usage=usage))
    return found


def _with_usage(row: RouteRow, taken: dict[str, list[ModelTaken]]) -> RouteRow:
    return row if row.mode else _replaced(row, taken=tuple(taken.get(row.job, ())))
