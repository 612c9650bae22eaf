"""The context of one turn: the parts of its session that it works with.

The engine builds one for every turn. `emit` stamps, logs, folds and publishes an event at once, so `state` always
includes the event that was just emitted, and a turn needs no copy of it. A stage of the turn gets the parts that it
needs, never the whole context.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

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
from core.config.settings import DialectName, Settings, TurnLimits
from core.hooks.session_hooks import SessionHooks
from core.lsp.language_servers import LanguageServers
from core.modes import Access
from core.protocol.events import AnyEvent, TurnCause
from core.providers.base import AnswerForm
from core.shell.python_repl import PythonRepl
from core.shell.terminal import Terminal
from core.state.session import SessionState
from core.tools.toolset import Toolset

if TYPE_CHECKING:
    from core.agent.answer.side_requests import SideRequests


class BuildTarget(Struct, frozen=True):
    """The plan that a turn builds, "" = none, and the todo of it that the user chose, "" = all."""

    plan: str = ""
    todo: str = ""


class TurnOrigin(Struct, frozen=True):
    """The cause of a turn, and the `loop` whose prompt it is. `reminder`: what the program tells the model about that,
    "" = nothing."""

    cause: TurnCause = "prompt"
    loop: str = ""
    reminder: str = ""


PROMPTED: Final = TurnOrigin()
AskAgent = Callable[["TurnContext", str, PromptSurroundings, str], Awaitable[None]]


async def prove_nothing() -> str:
    """Say that nothing is proven here."""
    return "Proof is not possible here."


class TurnContext(Struct, kw_only=True):
    """The context of one turn of the session `id`.

    `directory`: the session's directory (with `outputs/` and `prefix.json`). `is_private`: the APIs are asked to store
    nothing. `open_sources`: opens the sources that a prompt can name; `search`: searches the project; `outward`: opens
    the capabilities that lead out of session and machine; `offers`: extensions besides the list of tools. `hooks`: the
    hooks of the session. `budget`: usage of the turn. `ask_agent`: has a hosted agent answer, None = a model answers.
    `appended_prompt`: text for the end of the system prompt; `answer`: the form that the answer is held to.
    `cites_other_revision`: the lines that the answer cites are those of a commit or pull request, not of the shadow.
    `prove`: runs the check without each pending hunk, and returns why some were not looked into, "" = all were.
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
    prove: Callable[[], Awaitable[str]] = prove_nothing
    appended_prompt: str = ""
    answer: AnswerForm | None = None
    cites_other_revision: bool = False
    build: BuildTarget = BuildTarget()
    origin: TurnOrigin = PROMPTED
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

    def build_side_requests(self, emit: Callable[[AnyEvent], None] | None = None) -> SideRequests:
        """Build the sender of model calls outside the conversation; what they use counts in this turn. `emit` None: the
        events of their usage are emitted as any other."""
        from core.agent.answer.side_requests import SideRequests  # a session is opened before any model is asked

        return SideRequests(self.routes, self.budget, emit or self.emit, self.id, private=self.is_private)

    def use_settings(self, settings: Settings) -> None:
        """Replace the settings at once, also for the running turn."""
        self.settings = self.permissions.settings = settings

    def interrupt(self) -> bool:
        """Stop the running turn soon. Returns False if none is running."""
        if self.working is None or self.working.done():
            return False
        if not self.working.cancelling():  # A second cancellation would interrupt the clean-up of the first one.
            self.working.cancel()
        return True
