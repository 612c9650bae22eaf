"""The model of each job with its effort and fallbacks, and its usage in a session."""

from __future__ import annotations

from typing import get_args

from msgspec.structs import replace

from core.config.settings import Settings
from core.engine.models import ModelAccess
from core.engine.session.model_routes import choose_model, clamp_effort
from core.modes import Mode
from core.protocol.messages import ModelJob, Usage
from core.protocol.models import ModelUsage, RouteRow
from core.protocol.queries import RoutesAnswer
from core.state.session import SessionState

JOBS: tuple[ModelJob, ...] = get_args(ModelJob)


def build_route_table(
    settings: Settings, models: ModelAccess, state: SessionState | None, default: str = ""
) -> RoutesAnswer:
    """Return a row per job, and per mode with a model or effort of its own. Slow: looks up prices. `default`: the model
    of a session that would begin now, where there is none to look at."""
    if state is None:
        route = settings.resolve_route("chat")
        model, effort = route.model or default, str(route.effort)
    else:
        model, effort = choose_model(state, settings)
    rows = [_build_row("chat", model, effort, settings, models)]
    rows += _build_mode_rows(settings, models, model)
    rows += [_build_job_row(job, model, settings, models) for job in JOBS if job != "chat"]
    usage_by_job = _group_usage(state)
    rows = [row if row.mode else replace(row, taken=tuple(usage_by_job.get(row.job, ()))) for row in rows]
    now = state.model_choices.route if state is not None else None
    return RoutesAnswer(rows=tuple(rows), answering=now.model if now is not None and now.instead_of else "")


def _build_mode_rows(settings: Settings, models: ModelAccess, model: str) -> list[RouteRow]:
    rows = []
    for mode in Mode:
        mode_settings = settings.get_mode_settings(mode.value)
        if mode_settings.model or mode_settings.effort:
            effort = mode_settings.effort or settings.resolve_route("chat").effort
            row = _build_row("chat", mode_settings.model or model, effort, settings, models)
            rows.append(replace(row, mode=mode.value, fallback=()))
    return rows


def _build_job_row(job: ModelJob, chat: str, settings: Settings, models: ModelAccess) -> RouteRow:
    route = settings.resolve_route(job)
    if not route.model and job == "embed":
        return RouteRow(job=job)
    row = _build_row(job, route.model or chat, route.effort, settings, models)
    return row if route.model else replace(row, own=False, fallback=())


def _build_row(job: ModelJob, model: str, effort: str, settings: Settings, models: ModelAccess) -> RouteRow:
    if not model:
        return RouteRow(job=job)
    capabilities = models.capabilities(model, settings)
    took = clamp_effort(effort, capabilities)
    return RouteRow(
        job=job,
        model=model,
        effort=took,
        wanted=effort if took != effort else "",
        efforts=capabilities.efforts,
        fallback=settings.resolve_route(job).fallback,
        context_window=models.resolve_window(model, settings, capabilities),
        priced=models.cost(model, Usage(prompt_tokens=1_000, completion_tokens=1_000)) is not None,
    )


def _group_usage(state: SessionState | None) -> dict[str, list[ModelUsage]]:
    usage_by_job: dict[str, list[ModelUsage]] = {}
    for key, usage in state.model_choices.usage.items() if state is not None else ():
        job, _, model = key.partition(" ")
        usage_by_job.setdefault(job, []).append(ModelUsage(model=model, usage=usage))
    return usage_by_job
