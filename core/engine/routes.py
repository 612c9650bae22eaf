"""The models of a session: the chosen one, without which no turn begins, and those for jobs beside the conversation.

A model for a job (`small_model`, `apply_model`) that can't be used is done without: the chosen one does the job, and
the user is told.
"""

from __future__ import annotations

from typing import Final, Literal

from core.agent.session import Route
from core.engine.runtime import SessionRuntime
from core.errors import AgentTuiError, ConfigError
from core.protocol.events import Notice

Job = Literal["small_model", "apply_model"]
JOBS: Final[tuple[Job, ...]] = ("small_model", "apply_model")
NO_MODEL = "no model is chosen."
NO_MODEL_HINT = (
    "Set OPENAI_API_KEY or ANTHROPIC_API_KEY, or start a local model server; then choose one with "
    '--model PROVIDER/NAME (or `model = "PROVIDER/NAME"` in config.toml).'
)


class Routes:
    """Providers are made once and kept until `close`."""

    def __init__(self, session: SessionRuntime) -> None:
        self._session = session
        self._chosen: Route | None = None
        self._beside: dict[Job, Route] = {}
        self._problems: dict[Job, AgentTuiError] = {}

    @property
    def known(self) -> Route | None:
        """The route of the chosen model if it was asked for already."""
        return self._chosen

    def chosen(self) -> Route:
        """The provider of the chosen model. Raises `ConfigError` or `ProviderError` if there is none of that name."""
        state = self._session.state
        if not state.model:
            raise ConfigError(NO_MODEL, hint=NO_MODEL_HINT, code="no_model")
        if self._chosen is None or self._chosen.id != state.model:
            window = self._session.settings.context.window or state.context_window
            self._chosen = self._made(state.model, window)
        return self._chosen

    def resolve(self) -> None:
        """All routes. What `chosen` raises is raised; may take its time (an SDK is imported)."""
        self.chosen()
        for job in JOBS:
            name = self._name(job)
            if not name or (job in self._beside and self._beside[job].id == name):
                continue
            try:
                self._beside[job] = self._made(name)
            except AgentTuiError as problem:
                self._beside.pop(job, None)
                self._problems[job] = problem

    def beside(self, job: Job) -> Route | None:
        """The model for a job, None = the chosen one. Not before `resolve`."""
        return self._beside.get(job) if self._name(job) else None

    def complain(self) -> None:
        """Tell the user of models that can't be used."""
        for job, problem in self._problems.items():
            what, name = job.replace("_", " "), self._name(job)
            message = f"The {what} {name} can't be used: {problem.message}"
            self._session.emit(Notice(level="warning", message=message, hint=problem.hint))
        self._problems.clear()

    async def close(self) -> None:
        """Forget the providers (a model, a key or an address has changed)."""
        routes = [*([self._chosen] if self._chosen else []), *self._beside.values()]
        self._chosen = None
        self._beside.clear()
        for route in routes:
            await route.provider.close()

    def _name(self, job: Job) -> str:
        """The configured model; "" when there is none, or when it is the chosen one."""
        settings = self._session.settings
        name = settings.small_model if job == "small_model" else settings.apply_model
        return "" if name == self._session.state.model else name

    def _made(self, name: str, window: int = 0) -> Route:
        models = self._session.models
        provider, model = models.resolve(name, self._session.settings)
        able = models.capabilities(name, self._session.settings)
        window = window or able.context_window or models.window(name)
        return Route(provider=provider, model=model, id=name, window=window, capabilities=able)
