"""The context of one turn: the parts of its session that it works with.

The engine makes one for each turn. `emit` stamps, logs, folds and publishes an event at once, so `state` always shows
the effect of what was just emitted; a turn keeps no second copy of the truth. A stage of the turn is given the parts
that it needs, never all of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from msgspec import Struct, field

from core.agent.base.budget import TurnBudget
from core.agent.base.call_lease import OpenCapability
from core.agent.base.name_lookup import SearchProject, search_nothing
from core.agent.base.permissions import CallPermissions
from core.agent.base.plan_sync import PlanSync
from core.agent.base.routes import TurnRoutes
from core.agent.base.user_channel import UserChannel
from core.agent.context.memory import ModelMemory
from core.agent.context.offers import Offer
from core.agent.mentions.sources import OpenSources, PromptSurroundings, open_bare_sources
from core.config.model_settings import DialectName
from core.config.settings import Settings, TurnLimits
from core.hooks.session_hooks import SessionHooks
from core.lsp.language_servers import LanguageServers
from core.modes import Access
from core.protocol.events import AnyEvent
from core.shell.python_repl import PythonRepl
from core.shell.terminal import Terminal
from core.state.session import SessionState
from core.tools.toolset import Toolset


class BuildTarget(Struct, frozen=True):
    """The plan that a turn builds, "" = none, and the one todo of it that the user chose, "" = all."""

    plan: str = ""
    todo: str = ""


AskAgent = Callable[["TurnContext", str, PromptSurroundings, str], Awaitable[None]]


class TurnContext(Struct, kw_only=True):
    """The context of one turn of the session `id`.

    `directory`: the session's own (`outputs/` and `prefix.json` go below it). `is_private`: the APIs are asked to keep
    nothing. `open_sources`: opens what a prompt can name; `search`: looks through the project; `outward`: opens the
    capabilities that lead out of session and machine; `offers`: what the model is told of beside its list of tools.
    `hooks`: those of the session, to which every event is told. `budget`: what the turn has used. `ask_agent`: has the
    hosted agent answer that stands in the place of a model, None = a model answers.
    `appended_prompt`: ends the system prompt of a session that begins.
    """

    id: str
    turn_id: str = ""
    state: SessionState
    emit: Callable[[AnyEvent], None]
    settings: Settings
    directory: Path
    plans: PlanSync
    terminal: Terminal
    python: PythonRepl
    languages: LanguageServers
    user: UserChannel
    routes: TurnRoutes
    permissions: CallPermissions
    memory: ModelMemory
    tools: Toolset
    open_sources: OpenSources = open_bare_sources
    search: SearchProject = search_nothing
    outward: Mapping[Access, OpenCapability] = {}
    offers: tuple[Offer, ...] = ()
    hooks: SessionHooks = field(default_factory=SessionHooks)
    is_private: bool = False
    ask_agent: AskAgent | None = None
    appended_prompt: str = ""
    build: BuildTarget = BuildTarget()
    budget: TurnBudget = field(default_factory=lambda: TurnBudget(TurnLimits))
    working: asyncio.Task[None] | None = None

    @property
    def dialect(self) -> DialectName:
        """The dialect of the current model."""
        model = self.routes.current.id
        dialect_name = self.settings.get_dialect(model)
        return "tags" if dialect_name == "native" and self.memory.variants.is_toolless(model) else dialect_name

    @property
    def window(self) -> int:
        """The window of the current model in tokens; 0 = not known."""
        return self.settings.context.window or self.routes.current.window

    def use_settings(self, settings: Settings) -> None:
        """Let changed settings hold at once, also for the turn that runs."""
        self.settings = self.permissions.settings = settings

    def interrupt(self) -> bool:
        """Stop the running turn soon. False: none is running."""
        if self.working is None or self.working.done():
            return False
        if not self.working.cancelling():  # one that stops is let: it would leave behind what it still waits for
            self.working.cancel()
        return True
