"""The controllers of code navigation: the search of the project, and definitions and uses of the name at the cursor."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from textual import on
from textual.timer import Timer

from core.protocol import commands, events, queries
from core.protocol.language import Place
from core.protocol.queries import SearchHit
from core.text.counting import count
from tui.files.messages import BackRequested, LookupRequested, MentionRequested, RenameRequested
from tui.index_progress import describe_index, describe_progress
from tui.screens.controller import Controller, ScreenContext, in_worker
from tui.screens.controllers.panes import PaneController
from tui.text import fit_line
from tui.timers import start_timer

if TYPE_CHECKING:
    from tui.search.dialogs import HitChoice, SearchDialog, SearchMemory

MAX_HITS: Final = 100
PATIENCE: Final = 0.5  # seconds before a notice that a language server is being asked
MAX_FALLBACK: Final = 200


class SearchController(Controller):
    """Searches the project, and reports the state of its index."""

    def __init__(self, context: ScreenContext, panes: PaneController) -> None:
        super().__init__(context)
        self._panes = panes
        self._memory: SearchMemory | None = None
        self._dialog: SearchDialog | None = None

    # The index

    async def load_status(self) -> events.IndexStatus:
        """Query the state of the index; its progress then arrives as events."""
        answer = await self.context.query(queries.IndexQuery(), queries.IndexAnswer)
        if answer is not None:
            self.context.state.index = answer.status
        return self.context.state.index

    def show_progress(self) -> None:
        """Update an open search with the state of the index."""
        if self._dialog is not None and self._dialog.is_attached:
            self._dialog.set_index(self.context.state.index)

    @in_worker("index")
    async def action_show_index(self, _: str = "") -> None:
        summary, remedy = describe_index(await self.load_status())
        self.context.notify_user(summary, remedy)

    # The search

    @in_worker("picker")
    async def action_search(self, text: str = "") -> None:
        """Open the search with live results; it starts with the previous query unless a text is passed."""
        from tui.search.dialogs import SearchDialog, SearchMemory

        memory = self._memory or SearchMemory()
        if text:
            memory = SearchMemory(text, memory.kind)
        self._dialog = SearchDialog(self.find, self._panes.load_file, memory, self.context.state.index)
        choice = await self.context.ask(self._dialog)
        self._memory, self._dialog = self._dialog.memory, None
        await self.use(choice)

    async def find(self, text: str, kind: queries.SearchKind, limit: int = MAX_HITS) -> queries.SearchAnswer | str:
        """Return the results of the index, or why it is unavailable."""
        answer = await self.context.bridge.query(queries.SearchQuery(text=text, kind=kind, limit=limit))
        if isinstance(answer, queries.SearchAnswer):
            return answer
        return f"{answer.message} {answer.hint}".strip() if isinstance(answer, queries.RefusedAnswer) else "No answer."

    async def use(self, choice: HitChoice | None, name: str = "") -> None:
        """Open a chosen result, at `name` in its line if present; or mention it in the prompt."""
        if choice is not None and choice.use == "open":
            await self.open_place(choice.hit, choice.line, name)
        elif choice is not None:
            self.context.screen.post_message(MentionRequested(choice.hit.path, choice.hit.start, choice.hit.end))

    async def open_place(self, hit: queries.SearchHit, line: int, name: str = "") -> None:
        """Show a line of a result in the preview."""
        lines = hit.text.split("\n")[line - hit.start : line - hit.start + 1]
        match = re.search(rf"\b{re.escape(name)}\b", lines[0]) if name and lines else None
        await self._panes.preview_file(hit.path, line, match.start() + 1 if match is not None else 1)
        if self._panes.preview is not None:
            self._panes.preview.focus()


class NameController(Controller):
    """Looks up names in the preview, and returns to earlier positions."""

    def __init__(self, context: ScreenContext, panes: PaneController, search: SearchController) -> None:
        super().__init__(context)
        self._panes, self._search = panes, search

    @on(LookupRequested)
    @in_worker("names")
    async def _look_up(self, event: LookupRequested) -> None:
        timer = start_timer(self.context.screen, PATIENCE, self._show_waiting_notice)
        try:
            match event.kind:
                case "hover":
                    await self._show_hover(event, timer)
                case "definition":
                    await self._go_to_definition(event, timer)
                case "references":
                    await self._list_references(event, timer)
        finally:
            timer.stop()

    def _show_waiting_notice(self) -> None:
        self._show_below("Asking the language server…")

    def _show_below(self, text: str) -> None:
        if self._panes.preview is not None:
            self._panes.preview.show_hover(text)

    async def _ask(
        self, query: queries.DefinitionQuery | queries.ReferencesQuery, timer: Timer
    ) -> tuple[Sequence[Place], str]:
        """Return locations, and the reason if they are missing or incomplete."""
        answer = await self.context.bridge.query(query)
        timer.stop()
        self._show_below("")
        if isinstance(answer, queries.LocationsAnswer):
            return answer.places, answer.problem
        problem = f"{answer.message} {answer.hint}" if isinstance(answer, queries.RefusedAnswer) else "No answer."
        return (), problem.strip()

    async def _go_to_definition(self, event: LookupRequested, timer: Timer) -> None:
        query = queries.DefinitionQuery(path=event.path, line=event.line, column=event.column)
        places, problem = await self._ask(query, timer)
        if places:
            await self._show_places(f"Definitions of {fit_line(event.name, 60)}", event.name, _to_hits(places), problem)
            return
        hits = await self._find_symbols(event.name)
        if hits:
            note = f"{problem} The index has {count('definition', len(hits))} of {fit_line(event.name, 60)}.".strip()
            await self._show_places(f"Definitions of {fit_line(event.name, 60)}", event.name, hits, note)
        else:
            self._report_nothing(problem, f"no definition of {fit_line(event.name, 60)}")

    async def _list_references(self, event: LookupRequested, timer: Timer) -> None:
        query = queries.ReferencesQuery(path=event.path, line=event.line, column=event.column)
        places, problem = await self._ask(query, timer)
        hits: Sequence[SearchHit] = _to_hits(places)
        note = problem
        if not hits:
            answer = await self._search.find(event.name, "text", MAX_FALLBACK)
            hits = answer.hits if isinstance(answer, queries.SearchAnswer) else ()
            note = f"{problem} These places have the same word.".strip()
        if hits:
            await self._show_places(f"Uses of {fit_line(event.name, 60)}", event.name, hits, note, lists_one=True)
        else:
            self._report_nothing(problem, f"no use of {fit_line(event.name, 60)}")

    def _report_nothing(self, problem: str, subject: str) -> None:
        """Report that a server or the index has no result, and what the index may lack."""
        progress = describe_progress(self.context.state.index)
        notice = f"The index has {subject}{f' ({progress})' if progress else ''}." if problem else f"Found {subject}."
        self.context.notify_user(f"{problem} {notice}".strip())

    async def _show_hover(self, event: LookupRequested, timer: Timer) -> None:
        query = queries.HoverQuery(path=event.path, line=event.line, column=event.column)
        answer = await self.context.bridge.query(query)
        timer.stop()
        text = answer.text if isinstance(answer, queries.HoverAnswer) else ""
        if not text.strip():
            symbols = await self._find_symbols(event.name)
            text = "\n".join(f"{symbol.path}:{symbol.start}  {_find_signature(symbol)}" for symbol in symbols[:3])
        self._show_below(text or f"Nothing found about {fit_line(event.name, 60)}.")

    async def _find_symbols(self, name: str) -> Sequence[SearchHit]:
        """Return the index's symbols of exactly this name."""
        answer = await self._search.find(name, "symbols", MAX_FALLBACK)
        hits = answer.hits if isinstance(answer, queries.SearchAnswer) else ()
        return [hit for hit in hits if hit.symbol.rpartition(".")[2] == name]

    async def _show_places(
        self, title: str, name: str, hits: Sequence[SearchHit], note: str, *, lists_one: bool = False
    ) -> None:
        """Go to a single location, or let the user choose."""
        if len(hits) == 1 and not lists_one:
            if note:
                self.context.notify_user(note)
            await self._search.open_place(hits[0], hits[0].start, name)
            return
        from tui.search.dialogs import PlacesDialog

        dialog = PlacesDialog(title, self._panes.load_file, hits=hits, query=name, note=note)
        choice = await self.context.ask(dialog)
        await self._search.use(choice, name)

    @on(BackRequested)
    async def _go_back(self) -> None:
        if self._panes.visited:
            path, line, column = self._panes.visited.pop()
            await self._panes.preview_file(path, line, column, is_back=True)
        else:
            self.context.notify_user("You are where you started.")

    # Renaming

    @on(RenameRequested)
    @in_worker("names")
    async def _rename(self, event: RenameRequested) -> None:
        """Let the engine rename a symbol; its edits appear in the review."""
        before = dict(self.context.state.changes)
        command = commands.SymbolRename(path=event.path, line=event.line, column=event.column, new_name=event.new_name)
        if not await self.context.submit(command):
            return
        idle = await self.context.query(queries.IdleQuery(), queries.IdleAnswer)
        await self.context.bridge.wait_until_caught_up(idle.seq if idle is not None else 0)
        if any(before.get(path) != change for path, change in self.context.state.changes.items()):
            await self._panes.show("review")


def _to_hits(places: Sequence[Place]) -> list[SearchHit]:
    """Return one hit per line."""
    places_by_line = {(place.path, place.line): place for place in reversed(places)}
    return [
        SearchHit(path=place.path, start=place.line, end=max(place.end_line, place.line), text=place.text)
        for place in reversed(places_by_line.values())
    ]


def _find_signature(hit: SearchHit) -> str:
    return next((line.strip() for line in hit.text.split("\n") if line.strip()), hit.symbol)
