"""The models of a session: the chosen one, those for side jobs, and the fallbacks of each.

Model and effort are the user's choice for the mode, else the configured ones for the mode, else the user's choice,
else the configured ones. A model for a job (`small`, `apply`) or a fallback that can't be used is skipped, and the
user is notified; the chosen model then does the job.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import Lock
from typing import Final, Literal, get_args

from msgspec import Struct, field
from msgspec.structs import replace

from core.agent.base.routes import Route
from core.config.model_settings import ModeTable, RouteSettings
from core.config.settings import Settings
from core.engine.models import ModelAccess
from core.errors import AgentTuiError, ConfigError
from core.protocol.events import AnyEvent, Notice, RouteTaken
from core.protocol.messages import Effort, ModelJob
from core.providers.catalog.capabilities import Capabilities
from core.state.session import SessionState

SIDE_JOBS: Final[tuple[ModelJob, ...]] = ("small", "apply")
_NO_CHAINS: Final[dict[ModelJob, tuple[Route, ...]]] = dict.fromkeys(("chat", *SIDE_JOBS), ())
EFFORTS: Final[tuple[Effort, ...]] = get_args(Effort)
NO_MODEL = "no model is chosen."
NO_MODEL_HINT = (
    "Set OPENAI_API_KEY or ANTHROPIC_API_KEY, or start a local model server; then choose one with "
    '--model PROVIDER/NAME (or `model = "PROVIDER/NAME"` in config.toml).'
)


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
        fallback=subagent_route.fallback if subagent_route.model else chat.fallback,
    )
    return replace(settings, model="", routes=replace(settings.routes, chat=route), modes=ModeTable())


def clamp_effort(effort: str, capabilities: Capabilities) -> str:
    """Return the most effort that a model has up to `effort`, else its least; "" = it has none."""
    if not effort or effort in capabilities.efforts:
        return effort
    ranks = {str(level): rank for rank, level in enumerate(EFFORTS)}
    below = [level for level in capabilities.efforts if ranks[level] < ranks[effort]]
    return next(iter(below[-1:] or capabilities.efforts[:1]), "")


class ModelRoutes(Struct, eq=False):
    """Opens providers once and keeps them until `close`. `chains`: the routes to try for a job, in order, as `resolve`
    found them; () = the chosen model."""

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
        """The route of the chosen model if it was opened already."""
        return self._opened.get(choose_model(self._state, self._settings())[0])

    def open(self, model: str = "", effort: str = "") -> Route:
        """Return the route to a model, with `effort` clamped to what it has; "" = the chosen one, with its own. Raises
        `ConfigError`, `ProviderError`."""
        if not model:
            model, effort = choose_model(self._state, self._settings())
        if not model:
            raise ConfigError(NO_MODEL, hint=NO_MODEL_HINT, code="no_model")
        with self._lock:  # a turn may begin while another thread still warms up
            while (route := self._opened.get(model)) is None:
                routes = self._opened  # `close` puts another one in its place: what was made meanwhile is out of date
                routes[model] = self._open_route(model)
        return replace(route, effort=clamp_effort(effort, route.capabilities))

    def resolve(self) -> None:
        """Open all routes. Raises as `open`. Slow: an SDK may be imported."""
        settings = self._settings()
        primary_route = self.open()
        _, effort = choose_model(self._state, settings)
        others = self._open_usable("fallback", settings.resolve_route("chat").fallback, effort)
        chains: dict[ModelJob, tuple[Route, ...]] = {"chat": (primary_route, *others)}
        for job in SIDE_JOBS:
            route = settings.resolve_route(job)
            names = (route.model, *route.fallback) if route.model not in ("", primary_route.id) else ()
            chains[job] = tuple(self._open_usable(job, names, route.effort))
        self.chains = chains

    def _open_usable(self, role: str, models: tuple[str, ...], effort: str) -> list[Route]:
        routes = []
        for model in models:
            try:
                routes.append(self.open(model, effort))
            except AgentTuiError as problem:
                self._problems[f"The {role} model {model}"] = problem
        return routes

    def announce(self) -> None:
        """Report models that can't be used, once, and record which one answers from now on if that is news."""
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
        took = clamp_effort(effort, capabilities)
        before = state.model_choices.route or RouteTaken(model=state.model)
        requested_effort = effort if effort != took else ""
        if (before.model, before.effort, before.wanted, before.instead_of) == (model, took, requested_effort, ""):
            return
        window = self._models.resolve_window(model, settings, capabilities)
        self._emit(RouteTaken(model=model, effort=took, wanted=requested_effort, context_window=window))
        if requested_effort and (before.model, before.wanted) != (model, requested_effort):
            message = f"{model} has no effort to choose, as far as is known: {requested_effort} is not asked for."
            if capabilities.efforts:
                has = ", ".join(capabilities.efforts)
                message = f"{model} has no effort {requested_effort}: {took or 'its default'} is used; it has {has}."
            self._emit(Notice(level="info", message=message))

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
        return Route(provider=provider, model=model, id=name, window=window, capabilities=capabilities)
