"""The controllers of the main screen, one per subject. They are loaded together, after the first paint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from textual.message import Message

from tui.screens.controller import Controller, Handler, ScreenContext
from tui.screens.controllers.attention import AttentionController
from tui.screens.controllers.copying import CopyController
from tui.screens.controllers.editor import EditorController
from tui.screens.controllers.guide import GuideController
from tui.screens.controllers.models import ModelController, ProviderController
from tui.screens.controllers.modes import ModeController
from tui.screens.controllers.pages import AsideController, PageController
from tui.screens.controllers.panes import FocusController, PaneController
from tui.screens.controllers.plan import PlanController
from tui.screens.controllers.prompt import PromptController
from tui.screens.controllers.prompt_completion import CompletionController
from tui.screens.controllers.proof import ProofController
from tui.screens.controllers.questions import QuestionController
from tui.screens.controllers.review import CommitController, FindingController, ReviewController
from tui.screens.controllers.search import NameController, SearchController
from tui.screens.controllers.sessions import BackgroundController, ChatController, SessionController
from tui.screens.controllers.turn import (
    AgentController,
    ProcessController,
    QueueController,
    RewindController,
    TurnController,
)


class ControllerSet:
    """One controller of each class, under the prefix of its actions in the key table."""

    def __init__(self, context: ScreenContext) -> None:
        self.panes = PaneController(context)
        self.questions = QuestionController(context, self.panes)
        self.modes = ModeController(context, self.questions)
        self.review = ReviewController(context, self.panes)
        self.proof = ProofController(context)
        self.search = SearchController(context, self.panes)
        self.names = NameController(context, self.panes, self.search)
        self.editor = EditorController(context)
        self.copying = CopyController(context)
        self.asides = AsideController(context, self.copying)
        self.commits = CommitController(context, self.editor, self.copying, self.panes)
        self.plan = PlanController(context, self.panes, self.editor)
        self.sessions = SessionController(context, self.plan)
        self.prompt = PromptController(context, self.modes, self.panes, self.questions)
        self.completion = CompletionController(context, self.prompt.chips)
        self.queue = QueueController(context)
        self.chat = ChatController(context, self.panes, self.sessions)
        self.models = ModelController(context)
        self.providers = ProviderController(context, self.models)
        self.rewind = RewindController(context)
        self.jobs = ProcessController(context)
        self.turn = TurnController(context, self.panes, self.rewind)
        self.attention = AttentionController(context)
        self.findings = FindingController(context, self.panes, self.copying)
        self.guide = GuideController(context)
        self.pages = PageController(context, self.panes, self.attention, self.guide)
        self.agents = AgentController(context, self.panes, self.prompt)
        self.background = BackgroundController(context, self.panes, self.sessions)
        self.focus = FocusController(context, self.panes)
        self.by_name: Mapping[str, Controller] = dict(vars(self))
        self._handlers: dict[type[Message], Sequence[tuple[type, Handler]]] = {}

    def find_handlers(self, message: Message) -> Sequence[tuple[type, Handler]]:
        """Return the handlers of a message with their classes. The result is cached, because a key causes several
        lookups."""
        handlers = self._handlers.get(type(message))
        if handlers is None:
            controllers = self.by_name.values()
            handlers = [(type(one), handler) for one in controllers for handler in one.find_handlers(type(message))]
            self._handlers[type(message)] = handlers
        return handlers
