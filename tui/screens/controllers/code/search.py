"""The search's controller: it finds places in the project, opens them, and takes them into the prompt."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from core.protocol import queries
from tui.files.messages import MentionRequested
from tui.screens.controller import Controller, ScreenContext, in_worker
from tui.screens.controllers.panes import PaneController
from tui.search.progress import describe_index

if TYPE_CHECKING:
    from tui.search.dialogs import HitChoice, SearchDialog, SearchMemory

MAX_HITS: Final = 100


class SearchController(Controller):
    """Searches the project, and knows how far its index is."""

    def __init__(self, context: ScreenContext, panes: PaneController) -> None:
        super().__init__(context)
        self._panes = panes
        self._memory: SearchMemory | None = None
        self._dialog: SearchDialog | None = None

    # The index

    async def load_status(self) -> queries.IndexStatus:
        """Ask how far the index is; what it tells while it is built comes by itself."""
        answer = await self.context.query(queries.IndexQuery(), queries.IndexAnswer)
        if answer is not None:
            self.context.state.index = answer.status
        return self.context.state.index

    def show_progress(self) -> None:
        """Let an open search show how far the index is."""
        if self._dialog is not None and self._dialog.is_attached:
            self._dialog.set_index(self.context.state.index)

    @in_worker("index")
    async def action_show_index(self, _: str = "") -> None:
        summary, remedy = describe_index(await self.load_status())
        self.context.notify_user(summary, remedy)

    # The search

    @in_worker("picker")
    async def action_search(self, text: str = "") -> None:
        """Search as one types; what was searched for last is there again, unless a text is given."""
        from tui.search.dialogs import SearchDialog, SearchMemory

        memory = self._memory or SearchMemory()
        if text:
            memory = SearchMemory(text, memory.kind)
        self._dialog = SearchDialog(self.find, self._panes.load_file, memory, self.context.state.index)
        choice = await self.context.ask(self._dialog)
        self._memory, self._dialog = self._dialog.memory, None
        await self.use(choice)

    async def find(self, text: str, kind: queries.SearchKind, limit: int = MAX_HITS) -> queries.SearchAnswer | str:
        """Return what the index finds, or why it can't be asked."""
        answer = await self.context.bridge.query(queries.SearchQuery(text=text, kind=kind, limit=limit))
        if isinstance(answer, queries.SearchAnswer):
            return answer
        return f"{answer.message} {answer.hint}".strip() if isinstance(answer, queries.RefusedAnswer) else "No answer."

    async def use(self, choice: HitChoice | None, name: str = "") -> None:
        """Open a place that was chosen, at a `name` in its line if there is one; or mention it in the prompt."""
        if choice is not None and choice.use == "open":
            await self.open_place(choice.hit, choice.line, name)
        elif choice is not None:
            self.context.screen.post_message(MentionRequested(choice.hit.path, choice.hit.start, choice.hit.end))

    async def open_place(self, hit: queries.SearchHit, line: int, name: str = "") -> None:
        """Show a line of a place in the preview."""
        lines = hit.text.split("\n")[line - hit.start : line - hit.start + 1]
        match = re.search(rf"\b{re.escape(name)}\b", lines[0]) if name and lines else None
        await self._panes.preview_file(hit.path, line, match.start() + 1 if match is not None else 1)
        if self._panes.preview is not None:
            self._panes.preview.focus()
