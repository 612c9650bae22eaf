"""The models of a session: who answers, without which no turn begins, those for jobs beside the conversation, and who
is asked when one of them can't answer.

Which model and how much it thinks is what the user chose for the mode, else what is configured for the mode, else what
the user chose, else what is configured. A model for a job (`small`, `apply`) that can't be used is done without: the
chosen one does the job, and the user is told. So is a fallback that can't be used.
"""

from __future__ import annotations

from threading import Lock
from typing import Final, Literal, get_args

from msgspec.structs import replace

from core.agent.session import Route
from core.config import ModeTable, RouteSettings, Settings
from core.engine.runtime import SessionRuntime
from core.errors import AgentTuiError, ConfigError
from core.protocol.events import Notice, RouteTaken
from core.protocol.messages import Effort, Job
from core.providers.catalog.capabilities import Capabilities
from core.sessions.fold import SessionState

BESIDE: Final[tuple[Job, ...]] = ("small", "apply")
EFFORTS: Final[tuple[Effort, ...]] = get_args(Effort)
NO_MODEL = "no model is chosen."
NO_MODEL_HINT = (
    "Set OPENAI_API_KEY or ANTHROPIC_API_KEY, or start a local model server; then choose one with "
    '--model PROVIDER/NAME (or `model = "PROVIDER/NAME"` in config.toml).'
)


def wanted(state: SessionState, settings: Settings) -> tuple[str, Effort | Literal[""]]:
    """The model that is to answer in the mode at hand, and the effort it is to make; "" = none, its default."""
    mode, chosen = settings.mode_of(state.mode), state.chosen
    model = chosen.models.get(state.mode) or mode.model or state.model
    effort = chosen.efforts.get(state.mode) or mode.effort or chosen.effort or settings.route("chat").effort
    return model, effort


def of_subagents(state: SessionState, settings: Settings) -> Settings:
    """The settings of a session that works for this one: what is configured for the job, else as here."""
    own, chat = settings.route("subagent"), settings.route("chat")
    model, effort = wanted(state, settings)
    route = RouteSettings(
        model=own.model or model, effort=own.effort or effort, fallback=own.fallback if own.model else chat.fallback
    )
    return replace(settings, model="", routes=replace(settings.routes, chat=route), modes=ModeTable())


def clamped(effort: str, able: Capabilities) -> str:
    """The most of what a model has that is no more than `effort`; else the least that it has, "" = it has none."""
    if not effort or effort in able.efforts:
        return effort
    ranks = {str(each): rank for rank, each in enumerate(EFFORTS)}
    below = [each for each in able.efforts if ranks[each] < ranks[effort]]
    return next(iter(below[-1:] or able.efforts[:1]), "")


class Routes:
    """Providers are made once and kept until `close`."""

    def __init__(self, session: SessionRuntime) -> None:
        self._session = session
        self._opened: dict[str, Route] = {}
        self._making = Lock()
        self._chains: dict[Job, tuple[Route, ...]] = {}
        self._problems: dict[str, AgentTuiError] = {}
        self._told: set[str] = set()

    @property
    def known(self) -> Route | None:
        """The route of the chosen model if it was asked for already."""
        return self._opened.get(wanted(self._session.state, self._session.settings)[0])

    def chosen(self) -> Route:
        """The provider of the chosen model. Raises `ConfigError` or `ProviderError` if there is none of that name."""
        model, effort = wanted(self._session.state, self._session.settings)
        if not model:
            raise ConfigError(NO_MODEL, hint=NO_MODEL_HINT, code="no_model")
        return self.to(model, effort)

    def to(self, model: str, effort: str = "") -> Route:
        """The route to a model, with as much of an effort as it has. Raises as `chosen` does."""
        with self._making:  # a turn may begin while another thread still warms up
            while (route := self._opened.get(model)) is None:
                opened = self._opened  # `close` puts another one in its place: what was made meanwhile is out of date
                opened[model] = self._made(model)
        return replace(route, effort=clamped(effort, route.capabilities))

    def resolve(self) -> None:
        """All routes. What `chosen` raises is raised; may take its time (an SDK is imported)."""
        settings = self._session.settings
        chosen = self.chosen()
        _, effort = wanted(self._session.state, settings)
        others = self._usable("fallback", settings.route("chat").fallback, effort)
        chains: dict[Job, tuple[Route, ...]] = {"chat": (chosen, *others)}
        for job in BESIDE:
            route = settings.route(job)
            names = (route.model, *route.fallback) if route.model not in ("", chosen.id) else ()
            chains[job] = tuple(self._usable(job, names, route.effort))
        self._chains = chains

    def _usable(self, what: str, models: tuple[str, ...], effort: str) -> list[Route]:
        found = []
        for model in models:
            try:
                found.append(self.to(model, effort))
            except AgentTuiError as problem:
                self._problems[f"The {what} model {model}"] = problem
        return found

    def chain(self, job: Job) -> tuple[Route, ...]:
        """Who is asked for a job, in order; () = the chosen model. Not before `resolve`."""
        return self._chains.get(job, ())

    def complain(self) -> None:
        """Tell the user of models that can't be used, once."""
        for which, problem in self._problems.items():
            if which not in self._told:
                message = f"{which} can't be used: {problem.message}"
                self._session.emit(Notice(level="warning", message=message, hint=problem.hint))
        self._told |= self._problems.keys()
        self._problems.clear()

    def say(self) -> None:
        """Tell the clients who answers from now on, and with what effort, if that is news."""
        state, settings = self._session.state, self._session.settings
        model, effort = wanted(state, settings)
        if not model:
            return
        able = self._session.models.capabilities(model, settings)
        took = clamped(effort, able)
        before = state.chosen.route or RouteTaken(model=state.model)
        asked = effort if effort != took else ""
        if (before.model, before.effort, before.wanted, before.instead_of) == (model, took, asked, ""):
            return
        window = settings.context.window or able.context_window or self._session.models.window(model)
        self._session.emit(RouteTaken(model=model, effort=took, wanted=asked, context_window=window))
        if asked and (before.model, before.wanted) != (model, asked):
            message = f"{model} has no effort to choose, as far as is known: {asked} is not asked for."
            if able.efforts:
                has = ", ".join(able.efforts)
                message = f"{model} has no effort {asked}: {took or 'its default'} is used; it has {has}."
            self._session.emit(Notice(level="info", message=message))

    async def close(self) -> None:
        """Forget the providers (a model, a key or an address has changed)."""
        opened, self._opened = self._opened, {}
        self._chains.clear()
        self._told.clear()
        for route in list(opened.values()):
            await route.provider.close()

    def _made(self, name: str) -> Route:
        models, settings = self._session.models, self._session.settings
        provider, model = models.resolve(name, settings)
        able = models.capabilities(name, settings)
        window = settings.context.window or able.context_window or models.window(name)
        return Route(provider=provider, model=model, id=name, window=window, capabilities=able)
