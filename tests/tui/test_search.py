from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace
from textual.pilot import Pilot
from textual.widgets import Input, Static

from core.protocol import events as e
from core.protocol.events import IndexStatus
from core.protocol.queries import (
    AnyAnswer,
    AnyQuery,
    FileAnswer,
    FileQuery,
    IndexAnswer,
    IndexQuery,
    RefusedAnswer,
    SearchAnswer,
    SearchHit,
    SearchQuery,
)
from tests.support import recorded
from tests.support.scripted_client import ScriptedClient
from tests.tui.panes_case import CODE
from tui.app import AgentApp
from tui.bridge import SessionRequest
from tui.files.file_view import FileView
from tui.index_progress import describe_index, describe_progress, format_progress
from tui.search.dialogs import SearchDialog
from tui.search.hit_list import HitList, find_line

READY = IndexStatus(state="ready", files=3, indexed=3, chunks=9, embedded=9)
BUILDING = IndexStatus(state="building", files=2_900, indexed=1_204)
LONG = "packages/webshop-frontend/src/components/basket/summary/helpers/format_prices_for_receipts.ts"
HITS = (
    SearchHit(
        path="src/main.py",
        start=7,
        end=8,
        symbol="Basket.item_0",
        kind="method",
        text='    def item_0(self) -> int:\n        return 0  # "0"',
    ),
    SearchHit(path="src/main.py", start=40, end=43, symbol="Basket.item_11", kind="method", text="\n    def item_11:"),
    SearchHit(
        path=LONG,
        start=1_204,
        end=1_260,
        symbol="formatPricesForReceiptsWithTheLocaleOfTheCustomer",
        kind="function",
        text="export function formatPricesForReceiptsWithTheLocaleOfTheCustomer(item, locale, options = {}) {",
        is_changed=True,
    ),
    SearchHit(path="[/red]\x1b[2J.md", start=3, end=3, kind="text", text="\x1b]0;item\x07 [b]item[/b] \u202e\titem"),
)
FILE = FileAnswer(path="src/main.py", text=CODE, language="python", size=len(CODE))


class IndexedClient(ScriptedClient):
    """Finds the hits in which the words stand; `hold` keeps answers back."""

    def __init__(self, *args: Any, status: IndexStatus = READY, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.status = status
        self.hold: asyncio.Event | None = None
        self.related_from: int | None = None

    async def query(self, query: AnyQuery) -> AnyAnswer:
        if not isinstance(query, SearchQuery):
            return await super().query(query)
        self.queries.append(query)
        if self.hold is not None:
            await self.hold.wait()
        words = query.text.lower().split()
        kinds = {"symbols": ("method", "function"), "text": ("text",)}.get(query.kind, ())
        texts = [(hit, f"{hit.path} {hit.symbol} {hit.text}".lower()) for hit in HITS]
        matches = [hit for hit, text in texts if all(word in text for word in words)]
        hits = tuple(x for x in matches if not kinds or x.kind in kinds)
        return SearchAnswer(hits=hits, related_from=self.related_from if hits else None, status=self.status)


@pytest.fixture
def indexed(stage, monkeypatch):
    monkeypatch.setattr("tests.tui.conftest.ScriptedClient", IndexedClient)

    def staged(size=(120, 40), status=READY, **answers):
        known = {IndexQuery: IndexAnswer(status=status), FileQuery: FILE}
        return stage(recorded.opening(), size=size, answers=known, status=status)

    return staged


def asked(on) -> list[tuple[str, str]]:
    return [(query.text, query.kind) for query in on.client.queries if isinstance(query, SearchQuery)]


async def opened(on, *keys: str) -> SearchDialog:
    await on.pilot.press("ctrl+f")
    await on.until(lambda: isinstance(on.app.screen, SearchDialog))
    dialog = on.app.screen
    await on.until(lambda: dialog.query_one(Input).has_focus)
    await on.pilot.press(*keys)
    await on.until(lambda: dialog._shown == dialog.memory or not dialog.memory.text)
    return dialog


def rows(dialog: SearchDialog) -> list[str]:
    hit_list = dialog.query_one(HitList)
    return [hit_list.render_line(y).text.rstrip() for y in range(hit_list.size.height)]


def status(dialog: SearchDialog) -> str:
    return str(dialog.query_one(".hits--status", Static).content)


async def test_places_are_found_as_one_types_and_enter_opens_the_one_at_the_cursor(indexed):
    async with indexed() as on:
        dialog = await opened(on, *"item")
        assert "src/main.py:7  Basket.item_0" in rows(dialog)[0]
        assert "def item_0(self) -> int:" in rows(dialog)[1]
        assert status(dialog).strip() == "4 places"
        await on.until(lambda: dialog.query_one(FileView).marked_lines == (7, 8))
        await on.pilot.press("down")
        await on.until(lambda: dialog.query_one(FileView).marked_lines == (40, 43))
        await on.pilot.press("enter")
        await on.until(lambda: on.panes.preview is not None and on.panes.preview.query_one(FileView).has_text)
        view = on.panes.preview.query_one(FileView)
        await on.until(lambda: view.place.line == 41)
        assert view.has_focus


@pytest.mark.parametrize("size", [(60, 16), (80, 24)], ids=["narrow", "small"])
async def test_in_a_small_window_what_is_opened_covers_the_prompt_and_has_the_focus(indexed, size):
    async with indexed(size) as on:
        await opened(on, *"item_11")
        await on.pilot.press("enter")
        await on.until(lambda: on.panes.preview is not None and on.panes.preview.query_one(FileView).has_focus)
        await on.pilot.pause(0.3)
        assert on.panes.preview.query_one(FileView).has_focus
        assert on.panes.side.current == "preview"
        await on.pilot.press("escape")
        await on.until(lambda: on.prompt.has_focus)


async def test_the_sign_of_a_mention_takes_a_place_into_the_prompt_and_is_text_at_the_start(indexed):
    async with indexed() as on:
        await on.pilot.press(*"fix")
        dialog = await opened(on, "@", *"x")
        assert asked(on)[-1] == ("@x", "all")
        await on.pilot.press("backspace", "backspace", *"item_11")
        await on.until(lambda: asked(on)[-1:] == [("item_11", "all")] and len(dialog.hit_list.hits) == 1)
        await on.pilot.press("@")
        await on.until(lambda: on.prompt.has_focus)
        assert on.prompt.text == "fix @src/main.py:40-43 "


async def test_escape_goes_back_and_the_query_is_kept(indexed):
    async with indexed() as on:
        await opened(on, *"item_0", "tab")
        await on.pilot.press("escape")
        await on.until(lambda: on.prompt.has_focus)
        dialog = await opened(on)
        assert (dialog.query_one(Input).value, dialog.memory.kind) == ("item_0", "symbols")
        await on.until(lambda: dialog.hit_list.hits)
        await on.pilot.press("x")
        assert dialog.query_one(Input).value == "x"


async def test_the_kinds_can_be_read_in_a_theme_that_is_chosen_meanwhile(indexed):
    async with indexed() as on:
        dialog = await opened(on)
        kinds_line = dialog.query_one(".hits--kinds", Static)

        def find_ink() -> Any:
            return next(segment.style.color for segment in kinds_line.render_line(0) if "symbols" in segment.text)

        before = find_ink()
        on.app.appearance.choose("agent-light")
        on.app.show_appearance()
        await on.until(lambda: find_ink() != before)
        assert sum(find_ink().triplet) < 3 * 160


async def test_the_kinds_are_gone_through_by_tab(indexed):
    async with indexed() as on:
        dialog = await opened(on, *"item")
        for kind in ("symbols", "text", "meaning", "all"):
            await on.pilot.press("tab")
            await on.until(lambda kind=kind: asked(on)[-1] == ("item", kind))
        await on.pilot.press("shift+tab", "shift+tab")
        await on.until(lambda: dialog._shown == ("item", "text"))
        assert [hit.kind for hit in dialog.hit_list.hits] == ["text"]


async def test_what_is_superseded_never_shows_and_what_was_found_stands_until_the_next_answer(indexed):
    async with indexed() as on:
        dialog = await opened(on, *"item_0")
        on.client.hold = asyncio.Event()
        await on.pilot.press("backspace")
        await on.until(lambda: asked(on)[-1] == ("item_", "all"))
        assert len(dialog.hit_list.hits) == 1
        before = len(asked(on))
        for key in "11":  # both within the pause after a key, however busy the machine is
            dialog.query_one(Input).insert_text_at_cursor(key)
        await on.until(lambda: asked(on)[-1] == ("item_11", "all"))
        on.client.hold.set()
        await on.until(lambda: dialog._shown == dialog.memory)
        assert [hit.start for hit in dialog.hit_list.hits] == [40]
        assert len(asked(on)) == before + 1


async def test_enter_waits_for_what_was_typed_last(indexed):
    async with indexed() as on:
        dialog = await opened(on, *"item_0")
        on.client.hold = asyncio.Event()
        await on.pilot.press("backspace", "1", "1", "enter")
        assert on.app.screen is dialog
        on.client.hold.set()
        await on.until(lambda: on.panes.preview is not None and on.panes.preview.viewing is not None)
        assert on.panes.preview.viewing.line == 41


async def test_where_one_kind_finds_nothing_the_others_are_named(indexed):
    async with indexed() as on:
        dialog = await opened(on, *"nothing")
        await on.until(lambda: "Nothing found" in "\n".join(rows(dialog)))
        assert "Only" not in "\n".join(rows(dialog))
        await on.pilot.press("tab")
        await on.until(lambda: "Searched symbols only; tab switches" in " ".join(rows(dialog)))
        assert dialog.memory.kind == "symbols"


async def test_how_far_the_index_is_is_said_and_what_is_ready_is_searched_again(indexed):
    async with indexed(status=BUILDING) as on:
        assert "indexing 1,204/2,900" in str(on.screen.query_one("StatusBar").render())
        dialog = await opened(on, *"nothing")
        assert "Nothing found" in "\n".join(rows(dialog))
        assert "indexing 1,204 of 2,900 files" in status(dialog)
        before = len(asked(on))
        await on.emit(e.IndexProgressed(status=IndexStatus(state="building", files=2_900, indexed=2_000)))
        await on.until(lambda: "indexing 2,000 of 2,900 files" in status(dialog))
        on.client.status = READY
        await on.emit(e.IndexProgressed(status=READY))
        await on.until(lambda: len(asked(on)) == before + 1 and "indexing" not in status(dialog))
        assert "indexing" not in str(on.screen.query_one("StatusBar").render())


async def test_why_the_model_of_meaning_was_not_asked_stands_beside_what_was_found(indexed):
    lacking = replace(READY, model="local/minilm", known_to_model=2, problem="Until it knows more, another compares.")
    async with indexed(status=lacking) as on:
        dialog = await opened(on, *"item_0")
        assert "local/minilm knows 2 of 9 pieces. Until it knows more, another compares." in status(dialog)


async def test_a_refusal_and_an_index_that_is_off_are_told(indexed, monkeypatch):
    async with indexed() as on:

        async def refuse(self, query):
            return RefusedAnswer(code="broken", message="The index is locked.\x1b[2J", hint="Try again.")

        monkeypatch.setattr(IndexedClient, "query", refuse)
        await on.pilot.press("ctrl+f")
        await on.until(lambda: isinstance(on.app.screen, SearchDialog))
        await on.pilot.press("x")
        await on.until(lambda: on.app.screen._shown is not None)
        assert "The index is locked.␛[2J Try again." in " ".join(" ".join(rows(on.app.screen)).split())


@pytest.mark.parametrize("words", ["/search item_11", "/search"])
async def test_the_prompt_opens_the_search(indexed, words):
    async with indexed() as on:
        await on.pilot.press(*words, "enter")
        await on.until(lambda: isinstance(on.app.screen, SearchDialog))
        assert on.app.screen.query_one(Input).value == words.removeprefix("/search").strip()


async def test_the_index_is_told_in_words(indexed):
    async with indexed() as on:
        messages: list[str] = []
        on.screen.context.notify_user = lambda text, hint="", **_: messages.append(f"{text} {hint}".strip())
        await on.pilot.press(*"/index", "enter")
        await on.until(lambda: messages)
        assert messages == ["The index is ready: 3 files, 9 pieces."]


@pytest.mark.parametrize(
    ("known", "said"),
    [
        (IndexStatus(), ("No index.", "")),
        (BUILDING, ("Indexing 1,204 of 2,900 files. Searches cover what is indexed so far.", "")),
        (
            IndexStatus(state="failed", problem="the disk is full\x1b[2J"),
            ("The index failed: the disk is full␛[2J.", "`agent-tui index build` rebuilds it."),
        ),
        (
            IndexStatus(state="ready", files=1, indexed=1, chunks=8, embedded=2),
            ("The index is ready: 1 file, 8 pieces, 25% searchable by meaning so far.", ""),
        ),
        (
            IndexStatus(
                state="ready", files=1, indexed=1, chunks=8, embedded=8, model="local/minilm", known_to_model=2
            ),
            ("The index is ready: 1 file, 8 pieces. local/minilm knows 2 of them.", ""),
        ),
    ],
)
def test_the_state_of_an_index_is_described(known, said):
    assert describe_index(known) == said


def test_the_status_bar_says_one_short_thing_while_there_is_something_to_say():
    assert format_progress(READY)[0] == format_progress(IndexStatus())[0] == ""
    assert format_progress(BUILDING)[0] == "indexing 1,204/2,900"
    assert format_progress(IndexStatus(state="failed", problem="x"))[0] == "index failed · /index"
    assert describe_progress(READY) == ""


def test_the_line_with_most_of_the_query_is_shown():
    hit = SearchHit(path="a", start=10, end=14, text="class Basket:\n\n    def total(self):\n    # total of the basket")
    assert find_line(hit, "basket total") == (13, "    # total of the basket")
    assert find_line(hit, "def") == (12, "    def total(self):")
    assert find_line(hit, "nowhere") == (10, "class Basket:")
    assert find_line(SearchHit(path="a", start=3, end=4, text="\n  x"), "(") == (4, "  x")


async def test_a_click_chooses_what_is_searched_for(indexed):
    async with indexed() as on:
        dialog = await opened(on, *"item")
        await on.pilot.click(".hits--kinds", offset=(16, 0))
        await on.until(lambda: dialog._shown == ("item", "text"))
        assert [hit.kind for hit in dialog.hit_list.hits] == ["text"]


async def test_the_list_is_gone_through_by_line_and_by_page(indexed):
    async with indexed() as on:
        dialog = await opened(on, *"item")
        moved = []
        for key in ("down", "down", "up", "pagedown", "down", "pageup", "up"):
            await on.pilot.press(key)
            moved.append(dialog.hit_list.cursor)
        assert moved == [1, 2, 1, 3, 3, 0, 0]


async def test_the_mouse_chooses_and_opens(indexed):
    async with indexed() as on:
        dialog = await opened(on, *"item")
        await on.pilot.click(HitList, offset=(5, 3))
        assert dialog.hit_list.cursor == 1
        await on.pilot.click(HitList, offset=(5, 3))
        await on.until(lambda: on.panes.preview is not None)


async def test_a_rule_stands_between_what_was_typed_and_what_is_related_and_takes_no_cursor_and_no_click(indexed):
    async with indexed() as on:
        on.client.related_from = 2
        dialog = await opened(on, *"item")
        lines, hit_list = rows(dialog), dialog.query_one(HitList)
        assert lines[4].startswith("─ related ─")
        assert "_for_receipts.ts:1204" in lines[5]
        for at in (1, 2, 3):
            await on.pilot.press("down")
            assert hit_list.cursor == at
        assert [hit_list.render_line(y).text[0] for y in (4, 5, 7)] == ["─", " ", "▌"]
        await on.pilot.click(HitList, offset=(5, 4))
        assert hit_list.cursor == 3
        await on.pilot.click(HitList, offset=(5, 6))
        assert hit_list.cursor == 2
        on.client.related_from = 0
        await on.pilot.press("backspace")
        await on.until(lambda: rows(dialog)[0].startswith("─ no exact match · related ─"))
        on.client.related_from = 4
        await on.pilot.press("m")
        await on.until(lambda: dialog._shown == dialog.memory and not any("related" in row for row in rows(dialog)))


@pytest.mark.slow
@pytest.mark.parametrize("size", [(60, 16), (80, 24), (120, 40), (200, 60)], ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("words", ["item", "nothing"])
def test_the_search_looks_as_it_did(snap_compare, size, words):
    client = IndexedClient(recorded.opening(), answers={FileQuery: FILE}, status=READY if words == "item" else BUILDING)
    client.related_from = 2

    async def connect() -> ScriptedClient:
        return client

    app = AgentApp(connect, SessionRequest(model="scripted/demo"))

    async def search(pilot: Pilot[Any]) -> None:
        while app.main.state.seq < len(client.log):
            await pilot.pause(0.01)
        await pilot.press("ctrl+f")
        while not app.screen.query(HitList) or not app.screen.query_one(Input).has_focus:
            await pilot.pause(0.01)
        await pilot.press(*words)
        while app.screen._shown != app.screen.memory:
            await pilot.pause(0.01)
        if words == "item":
            await pilot.press("down", "down") if size[0] < 100 else await pilot.pause()
            view = app.screen.query_one(FileView)
            while size[0] >= 80 and not (view.has_text and view._painting.get_spans(7)):
                await pilot.pause(0.01)

    assert snap_compare(app, terminal_size=size, run_before=search)
