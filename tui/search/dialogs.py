"""The dialogs with hits in the project: live search, and the uses of a name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Literal, NamedTuple, get_args

from textual import events, on
from textual.app import ComposeResult
from textual.cache import LRUCache
from textual.containers import Horizontal
from textual.content import Content
from textual.style import Style
from textual.timer import Timer
from textual.widgets import Input, Static

from core.protocol.events import IndexStatus
from core.protocol.queries import FileAnswer, SearchAnswer, SearchHit, SearchKind
from core.text.counting import count
from tui.dialogs.dialog import Dialog
from tui.files.file_view import FileView
from tui.index_progress import describe_progress, describe_search_limits
from tui.keymap import format_first_key, get_bindings, get_keymap
from tui.search.hit_list import HitList
from tui.text import fit_line, render_prose
from tui.timers import start_timer
from tui.widgets.input_line import SteadyInput
from tui.widgets.key_hints import Hint, KeyHints
from tui.workers import start_worker

DEBOUNCE: Final = 0.12  # seconds without a key before a search begins
PREVIEW_PAUSE: Final = 0.06  # seconds on a hit before its file is loaded
KEPT_FILES: Final = 8
KINDS: Final[tuple[SearchKind, ...]] = get_args(SearchKind)
ABOUT_KINDS: Final = {
    "all": "Names, words, or a question about the project",
    "symbols": "A name, or part of one",
    "text": "Exact text",
    "meaning": "Describe what the code does",
}

LoadFile = Callable[[str], Awaitable[FileAnswer]]
Search = Callable[[str, SearchKind], Awaitable[SearchAnswer | str]]


class HitChoice(NamedTuple):
    """The chosen hit, its line, and the action for it."""

    hit: SearchHit
    line: int
    use: Literal["open", "mention"]


class SearchMemory(NamedTuple):
    """The previous search, which the dialog restores."""

    text: str = ""
    kind: SearchKind = "all"


class HitDialog(Dialog[HitChoice]):
    """A list of hits beside a preview of the current one, where there is room for it."""

    DEFAULT_CSS = """
    HitDialog .hits--status { height: 1; }
    HitDialog Horizontal { height: 1fr; }
    HitDialog HitList { width: 1fr; background: $surface; }
    HitDialog FileView { width: 1fr; border-left: vkey $panel; }
    HitDialog.-narrow Horizontal { layout: vertical; }
    HitDialog.-narrow FileView { border-left: none; border-top: hkey $panel; }
    HitDialog.-narrow.-low FileView { display: none; }
    """

    BINDINGS = get_bindings("hits")
    shape = "wide hits"

    def __init__(self, title: str, load_file: LoadFile) -> None:
        super().__init__(title)
        self._load_file = load_file
        self._files: LRUCache[str, FileAnswer] = LRUCache(KEPT_FILES)
        self._timer: Timer | None = None

    def compose_body(self) -> ComposeResult:
        with Horizontal():
            for view in (HitList(), FileView()):
                view.can_focus = False  # the keys are those of the dialog
                yield view
        yield Static(classes="hits--status")
        yield KeyHints()

    @property
    def hit_list(self) -> HitList:
        return self.query_one(HitList)

    def set_up(self) -> None:
        self._show_keys(("hits.open", "open"), ("hits.mention", "add to prompt"), ("hits.leave", "back"))

    def _show_keys(self, *hints: Hint) -> None:
        self.query_one(KeyHints).show(hints)

    def show_status(self, text: str, *, is_problem: bool = False) -> None:
        style = "$text-warning" if is_problem else "$foreground 60%"
        self.query_one(".hits--status", Static).update(Content.styled(f" {fit_line(text, 300)}", style))

    # The preview

    @on(HitList.Highlighted)
    def _preview_soon(self, event: HitList.Highlighted) -> None:
        event.stop()
        if self._timer is not None:
            self._timer.stop()
        self._timer = start_timer(self, PREVIEW_PAUSE, self._preview_current)

    def _preview_current(self) -> None:
        start_worker(self, self._show_preview, group="hits.preview", exclusive=True)

    async def _show_preview(self) -> None:
        view, hit = self.query_one(FileView), self.hit_list.current_hit
        if hit is None or not view.display:
            view.show_message(" ")
            return
        if (file := self._files.get(hit.path)) is None:
            file = self._files[hit.path] = await self._load_file(hit.path)
        if file.problem:
            view.show_message(f"No preview\n\n{render_prose(file.problem)}")
        else:
            view.show_text(file)
            view.move_cursor_to(hit.start, end=hit.end)

    def on_resize(self, _: events.Resize) -> None:
        self._preview_current()

    # Keys

    def action_move(self, step: int) -> None:
        self.hit_list.action_move(step)

    def action_page(self, step: int) -> None:
        self.hit_list.action_page(step)

    @on(HitList.Opened)
    def action_open(self) -> None:
        self._choose("open")

    def action_mention(self) -> None:
        self._choose("mention")

    def _choose(self, use: Literal["open", "mention"]) -> None:
        if (hit := self.hit_list.current_hit) is not None:
            self.answer(HitChoice(hit, self.hit_list.current_line, use))


class PlacesDialog(HitDialog):
    """Lists known locations; `note` is a remark about them."""

    def __init__(self, title: str, load_file: LoadFile, *, hits: Sequence[SearchHit], query: str, note: str) -> None:
        super().__init__(title, load_file)
        self._hits, self._query, self._note = hits, query, note

    def set_up(self) -> None:
        super().set_up()
        self.hit_list.show(self._hits, self._query)
        self.show_status(self._note or count("place", len(self._hits)), is_problem=bool(self._note))


class SearchDialog(HitDialog):
    """Searches as the user types: `search(text, kind)` returns hits, or the reason of a failure."""

    BINDINGS = get_bindings("search")

    def __init__(self, search: Search, load_file: LoadFile, memory: SearchMemory, status: IndexStatus) -> None:
        super().__init__("Search the project", load_file)
        self._search = search
        self.memory = memory
        self._status = status
        self._typing: Timer | None = None
        self._shown: SearchMemory | None = None
        self._opens_first = False  # Enter was pressed before the results arrived

    def compose_body(self) -> ComposeResult:
        yield SteadyInput(self.memory.text, placeholder=ABOUT_KINDS[self.memory.kind], compact=True)
        yield Static(classes="hits--kinds")
        yield from super().compose_body()

    def set_up(self) -> None:
        self._show_keys(
            ("hits.open", "open"),
            ("search.mention", "add to prompt"),
            ("search.next_kind", "kind"),
            ("hits.leave", "back"),
        )
        self._show_kinds()
        self.app.theme_changed_signal.subscribe(self, lambda _: self._show_kinds())
        self.query_one(Input).focus()
        self._start_search()

    def _show_kinds(self) -> None:
        parts: list[tuple[str, Style]] = []
        for kind in KINDS:
            looks = "bold reverse" if kind == self.memory.kind else "$foreground 60%"
            style = self.app.stylesheet.parse_style(looks) + Style.from_meta({"kind": kind})
            parts += [(f" {kind} ", style)]
        self.query_one(".hits--kinds", Static).update(Content.assemble(*parts))
        self.query_one(Input).placeholder = ABOUT_KINDS[self.memory.kind]

    @on(Input.Changed)
    def _on_text_changed(self, event: Input.Changed) -> None:
        event.stop()
        if event.value != self.memory.text:
            self._opens_first = False
            self.memory = self.memory._replace(text=event.value)
            if self._typing is not None:
                self._typing.stop()
            self._typing = start_timer(self, DEBOUNCE, self._start_search)

    @on(Input.Submitted)
    def _on_text_submitted(self, event: Input.Submitted) -> None:
        """Open the current hit; recent letters are searched for first."""
        event.stop()
        if self._shown == self.memory:
            self.action_open()
        else:
            self._opens_first = True
            self._start_search()

    def on_click(self, event: events.Click) -> None:
        if (kind := event.style.meta.get("kind")) in KINDS:
            self.action_next_kind(KINDS.index(kind) - KINDS.index(self.memory.kind))

    def action_next_kind(self, step: int) -> None:
        kind = KINDS[(KINDS.index(self.memory.kind) + step) % len(KINDS)]
        self.memory = self.memory._replace(kind=kind)
        self._show_kinds()
        self._start_search()

    def action_mention(self) -> None:
        """Mention the hit in the prompt; at the start of the input, the key is a character of the query."""
        search_input = self.query_one(Input)
        if search_input.has_focus and not search_input.cursor_position:
            search_input.insert_text_at_cursor("@")
        else:
            super().action_mention()

    # Searching

    def set_index(self, status: IndexStatus) -> None:
        """Update the index's status; the search is repeated once the index is ready."""
        was_ready, self._status = self._status.state == "ready", status
        if status.state == "ready" and not was_ready and self.memory.text.strip():
            self._start_search()
        else:
            self._show_count()

    def _start_search(self) -> None:
        start_worker(self, self._find, self.memory, group="search", exclusive=True)

    async def _find(self, search_memory: SearchMemory) -> None:
        if not search_memory.text.strip():
            self._shown = None
            self.hit_list.show((), "", message=" ")
            self._show_count()
            return
        answer = await self._search(search_memory.text, search_memory.kind)
        keeps_place, self._shown = search_memory == self._shown, search_memory
        if isinstance(answer, str):
            self.hit_list.show((), "", message="Search failed\n\n" + render_prose(answer))
            self.show_status("")
            return
        self._status = answer.status
        message = self._describe_nothing(search_memory.kind)
        related_from = answer.related_from
        self.hit_list.show(
            answer.hits, search_memory.text, related_from=related_from, message=message, keeps_place=keeps_place
        )
        self._show_count()
        if self._opens_first:
            self.action_open()

    def _describe_nothing(self, kind: SearchKind) -> str:
        """Return the text without hits: the index's status, and alternatives."""
        key = format_first_key("search.next_kind", get_keymap(self.app))
        others = f"Searched {kind} only; {key} switches to the next kind." if kind != "all" else ""
        return "\n\n".join(filter(None, ("Nothing found", describe_progress(self._status), others)))

    def _show_count(self) -> None:
        hit_count = count("place", len(self.hit_list.hits)) if self._shown is not None else ""
        progress = describe_progress(self._status)
        is_partial = self.memory.kind == "meaning" and self._status.embedded < self._status.chunks
        share = f"{self._status.embedded / self._status.chunks:.0%} searchable by meaning" if is_partial else ""
        lack = describe_search_limits(self._status) if self.memory.kind in {"meaning", "all"} else ""
        text = " · ".join(filter(None, (hit_count, progress, share, lack)))
        self.show_status(text, is_problem=self._status.state in {"failed", "off"} and bool(progress))
