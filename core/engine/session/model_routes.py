"""The models of a session: the chosen one, those for side jobs, their fallbacks, and a table with their usage.

Model and effort are the user's choice for the mode, else the configured ones for the mode, else the user's choice,
else the configured ones. A model for a job (`small`, `apply`) or a fallback that can't be used is skipped, and the
user is notified; the chosen model then does the job.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import date
from threading import Lock
from typing import Final, Literal, cast, get_args

from msgspec import Struct, field
from msgspec.structs import replace

from core.agent.base.routes import Route
from core.clock import now_ms
from core.config.settings import ModeTable, RouteSettings, Settings
from core.engine.shared.models import ModelAccess
from core.errors import AgentTuiError, ConfigError
from core.modes import Mode
from core.protocol.events import AnyEvent, Notice, RouteTaken
from core.protocol.messages import Effort, ModelJob, ServiceTier, TierChoice, Usage
from core.protocol.models import ModelUsage, RouteRow
from core.protocol.queries import RoutesAnswer
from core.providers.base import LearningProvider
from core.providers.catalog.capabilities import Capabilities, PriceStep
from core.state.session import SessionState

SIDE_JOBS: Final[tuple[ModelJob, ...]] = ("small", "apply", "advisor")
_NO_CHAINS: Final[dict[ModelJob, tuple[Route, ...]]] = dict.fromkeys(("chat", *SIDE_JOBS), ())
EFFORTS: Final[tuple[Effort, ...]] = get_args(Effort)
NO_MODEL = "no model is chosen."
NO_MODEL_HINT = (
    "Set OPENAI_API_KEY or ANTHROPIC_API_KEY, or start a local model server; then choose one with "
    '--model PROVIDER/NAME (or `model = "PROVIDER/NAME"` in config.toml).'
)
WARNING_DAYS: Final = 45  # before the end of a model
JOBS: tuple[ModelJob, ...] = get_args(ModelJob)


def choose_model(state: SessionState, settings: Settings) -> tuple[str, Effort | Literal[""]]:
    """Return the model for the current mode and its effort; "" = none, or the model's default."""
    mode, model_choices = settings.get_mode_settings(state.mode), state.model_choices
    model = model_choices.models.get(state.mode) or mode.model or state.model
    effort = (
        model_choices.efforts.get(state.mode)
        or mode.effort
        or model_choices.effort
        or settings.resolve_route("chat").effort
    )
    return model, effort


def derive_subagent_settings(state: SessionState, settings: Settings) -> Settings:
    """Return the settings of a subagent session: the routes of that job, else the parent's."""
    subagent_route, chat = settings.resolve_route("subagent"), settings.resolve_route("chat")
    model, effort = choose_model(state, settings)
    route = RouteSettings(
        model=subagent_route.model or model,
        effort=subagent_route.effort or effort,
        tier=subagent_route.tier or choose_tier(state, settings),
        fallback=subagent_route.fallback if subagent_route.model else chat.fallback,
    )
    return replace(settings, model="", routes=replace(settings.routes, chat=route), modes=ModeTable())


def clamp_effort(effort: str, capabilities: Capabilities) -> str:
    """Return the highest effort of a model up to `effort`, else its lowest; "" = it has none."""
    if not effort or effort in capabilities.efforts:
        return effort
    ranks = {str(level): rank for rank, level in enumerate(EFFORTS)}
    below = [level for level in capabilities.efforts if ranks[level] < ranks[effort]]
    return next(iter(below[-1:] or capabilities.efforts[:1]), "")


def choose_effort(effort: str, capabilities: Capabilities) -> str:
    """Return the effort of a conversation: the chosen one, as far as the model has it, else the one for conversations;
    "" = the model's default."""
    return clamp_effort(effort or capabilities.chat_effort, capabilities)


def find_tier(tier: TierChoice, capabilities: Capabilities) -> ServiceTier | Literal[""]:
    """Return a service tier if a model has it, else "", the standard one."""
    return "" if tier in {"", "standard"} or not capabilities.tiers.get_factor(tier) else cast("ServiceTier", tier)


def choose_tier(state: SessionState, settings: Settings) -> ServiceTier | Literal[""]:
    """Return the service tier for the conversation; "" = standard."""
    tier = state.model_choices.tier or settings.resolve_route("chat").tier
    return "" if tier == "standard" else tier


class ModelRoutes(Struct, eq=False):
    """Opens providers once and caches them until `close`. `chains`: the routes to try for a job, in order, as `resolve`
    left them; () = the chosen model."""

    _models: ModelAccess
    _settings: Callable[[], Settings]
    _state: SessionState
    _emit: Callable[[AnyEvent], None]
    chains: Mapping[ModelJob, tuple[Route, ...]] = field(default_factory=_NO_CHAINS.copy)
    _opened: dict[str, Route] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)
    _problems: dict[str, AgentTuiError] = field(default_factory=dict)
    _reported: set[str] = field(default_factory=set)

    @property
    def current(self) -> Route | None:
        """The route of the chosen model if it is open."""
        return self._opened.get(choose_model(self._state, self._settings())[0])

    def open(self, model: str = "", effort: str = "") -> Route:
        """Return the route to a model, with `effort` clamped to its efforts; "" = the chosen model with its own effort
        and tier. Raises `ConfigError`, `ProviderError`."""
        tier: ServiceTier | Literal[""] = ""
        if is_chosen := not model:
            model, effort = choose_model(self._state, self._settings())
            tier = choose_tier(self._state, self._settings())
        if not model:
            raise ConfigError(NO_MODEL, hint=NO_MODEL_HINT, code="no_model")
        with self._lock:  # a turn may begin while another thread still warms up
            while (route := self._opened.get(model)) is None:
                routes = self._opened  # `close` replaces the dict: a route that was opened meanwhile is outdated
                routes[model] = self._open_route(model)
        capabilities = route.capabilities
        used_effort = choose_effort(effort, capabilities) if is_chosen else clamp_effort(effort, capabilities)
        return replace(route, effort=used_effort, tier=find_tier(tier, capabilities))

    def resolve(self) -> None:
        """Open all routes. Raises as `open`. Slow: an SDK may be imported."""
        settings = self._settings()
        primary_route = self.open()
        _, effort = choose_model(self._state, settings)
        fallbacks = self._open_usable("fallback", settings.resolve_route("chat").fallback, effort)
        others = [replace(route, effort=choose_effort(effort, route.capabilities)) for route in fallbacks]
        chains: dict[ModelJob, tuple[Route, ...]] = {"chat": (primary_route, *others)}
        for job in SIDE_JOBS:
            route = settings.resolve_route(job)
            names = (route.model, *route.fallback) if route.model not in ("", primary_route.id) else ()
            usable_routes = self._open_usable(job, names, route.effort)
            chains[job] = tuple(
                replace(usable, tier=find_tier(route.tier, usable.capabilities)) for usable in usable_routes
            )
        self.chains = chains

    async def learn(self, *, load: bool = False) -> None:
        """Ask the server of the chosen model what it can do now, and open the routes anew if that has changed. `load`:
        see `LearningProvider`."""
        route = self.current
        if route is None or not isinstance(provider := route.provider, LearningProvider):
            return
        await provider.learn(route.model, private=self._state.is_private, load=load)
        models, settings = self._models, self._settings()
        capabilities = models.capabilities(route.id, settings)
        window = models.resolve_window(route.id, settings, capabilities)
        if (capabilities, window) != (route.capabilities, route.window) and self._opened.get(route.id) is route:
            self._opened[route.id] = replace(route, capabilities=capabilities, window=window)
            await asyncio.to_thread(self.resolve)
            before = self._state.model_choices.route or RouteTaken(model=self._state.model)
            if window != route.window and before.model == route.id:
                self._emit(replace(before, context_window=window))

    def _open_usable(self, role: str, models: tuple[str, ...], effort: str) -> list[Route]:
        routes = []
        for model in models:
            try:
                routes.append(self.open(model, effort))
            except AgentTuiError as problem:
                self._problems[f"The {role} model {model}"] = problem
        return routes

    def announce(self) -> None:
        """Report models that can't be used, once, and record a change of the model that answers."""
        for subject, problem in self._problems.items():
            if subject not in self._reported:
                message = f"{subject} can't be used: {problem.message}"
                self._emit(Notice(level="warning", message=message, hint=problem.hint))
        self._reported |= self._problems.keys()
        self._problems.clear()
        state, settings = self._state, self._settings()
        model, effort = choose_model(state, settings)
        if not model:
            return
        route = self._opened.get(model)
        capabilities = route.capabilities if route is not None else self._models.capabilities(model, settings)
        self.warn_of_end()
        used_effort, step = choose_effort(effort, capabilities), self._models.price_step(model).tokens
        chosen_tier = choose_tier(state, settings)
        tier = find_tier(chosen_tier, capabilities)
        before = state.model_choices.route or RouteTaken(model=state.model)
        requested_effort = effort if effort != used_effort else ""
        window = self._models.resolve_window(model, settings, capabilities)
        taken = RouteTaken(
            model=model, effort=used_effort, wanted=requested_effort, context_window=window, price_step=step, tier=tier
        )
        if replace(before, context_window=window) == taken:
            return
        self._emit(taken)
        if chosen_tier != tier:
            has = f"it has {', '.join(capabilities.tiers.names)}" if capabilities.tiers.names else "it has no other"
            message = f"{model} has no service tier {chosen_tier}: the standard one is used; {has}."
            self._emit(Notice(level="info", message=message))
        if requested_effort and (before.model, before.wanted) != (model, requested_effort):
            message = f"{model} has no known effort levels: {requested_effort} is not sent."
            if capabilities.efforts:
                has = ", ".join(capabilities.efforts)
                message = (
                    f"{model} has no effort level {requested_effort}: {used_effort or 'its default'} "
                    f"is used; it has {has}."
                )
            self._emit(Notice(level="info", message=message))

    def warn_of_end(self) -> None:
        """Warn once if the chosen model is gone, or will be within weeks."""
        model, _ = choose_model(self._state, self._settings())
        capabilities = self._models.capabilities(model, self._settings()) if model else Capabilities()
        if not capabilities.retires_at or model in self._reported:
            return
        days = (date.fromisoformat(capabilities.retires_at) - date.fromtimestamp(now_ms() / 1000)).days
        if days <= WARNING_DAYS:
            self._reported.add(model)
            provider, _, _ = model.partition("/")
            when = f"ends on {capabilities.retires_at}" if days > 0 else f"ended on {capabilities.retires_at}"
            hint = f"Its maker names {provider}/{capabilities.successor} instead: " if capabilities.successor else ""
            self._emit(Notice(level="warning", message=f"{model} {when}.", hint=f"{hint}/model chooses another one."))

    async def close(self) -> None:
        """Close the providers (a model, a key or an address has changed)."""
        routes, self._opened = self._opened, {}
        self.chains = _NO_CHAINS
        self._reported.clear()
        for route in list(routes.values()):
            await route.provider.close()

    def _open_route(self, name: str) -> Route:
        models, settings = self._models, self._settings()
        provider, model = models.resolve(name, settings)
        capabilities = models.capabilities(name, settings)
        window = models.resolve_window(name, settings, capabilities)
        own_price = name in settings.models and settings.models[name].price is not None
        step = PriceStep() if own_price else models.price_step(name)
        return Route(provider=provider, model=model, id=name, window=window, capabilities=capabilities, price_step=step)


def build_route_table(
    settings: Settings, models: ModelAccess, state: SessionState | None, default: str = ""
) -> RoutesAnswer:
    """Return a row per job, and per mode with its own model or effort. Slow: looks up prices. `default`: the model of a
    new session, for `state` None."""
    if state is None:
        route = settings.resolve_route("chat")
        model, effort = route.model or default, str(route.effort)
    else:
        model, effort = choose_model(state, settings)
    chat_row = _build_row("chat", model, effort, settings, models)
    tier = choose_tier(state, settings) if state is not None else chat_row.tier
    rows = [replace(chat_row, tier=tier if tier in chat_row.tiers else "")]
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
    if not route.model and job in {"embed", "advisor"}:
        return RouteRow(job=job)
    row = _build_row(job, route.model or chat, route.effort, settings, models)
    return row if route.model else replace(row, own=False, fallback=())


def _build_row(job: ModelJob, model: str, effort: str, settings: Settings, models: ModelAccess) -> RouteRow:
    if not model:
        return RouteRow(job=job)
    capabilities = models.capabilities(model, settings)
    is_chat = job in {"chat", "subagent"}
    used_effort = choose_effort(effort, capabilities) if is_chat else clamp_effort(effort, capabilities)
    tier, tiers = settings.resolve_route(job).tier, capabilities.tiers
    return RouteRow(
        job=job,
        model=model,
        effort=used_effort,
        wanted=effort if used_effort != effort else "",
        efforts=capabilities.efforts,
        fallback=settings.resolve_route(job).fallback,
        context_window=models.resolve_window(model, settings, capabilities),
        priced=models.cost(model, Usage(prompt_tokens=1_000, completion_tokens=1_000)) is not None,
        estimated=models.estimated(model),
        price_step=models.price_step(model).tokens,
        tier=tier if tiers.get_factor(tier) else "",
        tiers=tiers.names,
        tier_factors=tuple(map(tiers.get_factor, tiers.names)),
        retires_at=capabilities.retires_at,
    )


def _group_usage(state: SessionState | None) -> dict[str, list[ModelUsage]]:
    usage_by_job: dict[str, list[ModelUsage]] = {}
    for key, usage in state.model_choices.usage.items() if state is not None else ():
        job, _, model = key.partition(" ")
        usage_by_job.setdefault(job, []).append(ModelUsage(model=model, usage=usage))
    return usage_by_job
