from __future__ import annotations

import asyncio
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input, Static

from core.protocol import commands as c
from core.protocol.commands import AnyCommand, Reject, Reply
from core.protocol.events import ChangeProposed
from core.protocol.language import Place
from core.protocol.queries import (
    AnyAnswer,
    AnyQuery,
    DefinitionQuery,
    FileAnswer,
    FileQuery,
    HoverAnswer,
    HoverQuery,
    IdleAnswer,
    IdleQuery,
    LocationsAnswer,
    ReferencesQuery,
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
from tui.files.preview import format_hover
from tui.search.dialogs import PlacesDialog

NO_SERVER = "No language server is installed here for Python."
PRICES = Place(path="prices.py", line=22, column=9, text="    def item_5(self) -> int:")
USES = (
    PRICES,
    Place(path="src/main.py", line=31, column=9, text="        self.item_5()"),
    Place(path="tests/test_\x1b[2Jx.py", line=4, column=12, text="    assert\t[b]item_5[/b]\u202e"),
)
HOVER = "```python\ndef item_5(self) -> int\n```\n---\nThe **fifth** item.\x1b[2J\n"


class CodeClient(ScriptedClient):
    """Any file has the same text. What is asked about names is answered from the table."""

    async def query(self, query: AnyQuery) -> AnyAnswer:
        if isinstance(query, FileQuery):
            return FileAnswer(path=query.path, text=CODE, language="python", size=len(CODE))
        return await super().query(query)


@pytest.fixture
def reading(stage, monkeypatch):
    monkeypatch.setattr("tests.tui.conftest.ScriptedClient", CodeClient)

    def staged(answers=None, size=(120, 40), **kwargs):
        return stage(recorded.opening(), size=size, answers=answers or {}, **kwargs)

    return staged


async def at_name(on, line: int = 22) -> FileView:
    await on.panes.preview_file("src/main.py", line)
    view = on.panes.preview.query_one(FileView)
    await on.until(lambda: view.has_text and view.place.line == line)
    view.focus()
    await on.until(lambda: view.place.name == f"item_{(line - 7) // 3}")
    return view


def notes(on) -> list[str]:
    messages: list[str] = []
    on.screen.context.notify_user = lambda text, hint="", **_: messages.append(f"{text} {hint}".strip())
    return messages


def hover(on) -> str:
    panel = on.panes.preview.query_one(".preview--hover", Static)
    return str(panel.content) if panel.display else ""


@pytest.mark.parametrize("key", ["d", "f12"])
async def test_the_definition_of_a_name_is_gone_to_and_back(reading, key):
    async with reading({DefinitionQuery: LocationsAnswer(places=(PRICES,))}) as on:
        view = await at_name(on, 40)
        await on.pilot.press("w", key)
        await on.until(lambda: on.panes.preview.path == "prices.py" and view.place.line == 22)
        asked = next(query for query in on.client.queries if isinstance(query, DefinitionQuery))
        assert (asked.path, asked.line, asked.column) == ("src/main.py", 40, 17)
        await on.pilot.press("backspace")
        await on.until(lambda: on.panes.preview.path == "src/main.py" and view.place.line == 40)
        assert view.place[:2] == (40, asked.column)
        messages = notes(on)
        await on.pilot.press("backspace")
        await on.until(lambda: messages)
        assert messages == ["You are where you started."]


async def test_places_that_were_gone_through_are_gone_back_through_one_by_one(reading):
    async with reading() as on:
        view = await at_name(on, 40)
        await on.panes.preview_file("a.py", 7)
        await on.until(lambda: on.panes.preview.viewing and view.place.line == 7)
        await on.panes.preview_file("a.py", 10)
        await on.until(lambda: on.panes.preview.path == "a.py" and view.place.line == 10)
        await on.pilot.press("backspace")
        await on.until(lambda: view.place.line == 7)
        await on.pilot.press("backspace")
        await on.until(lambda: view.place.line == 40)
        assert (on.panes.preview.path, on.panes.visited) == ("src/main.py", [])


async def test_several_definitions_are_listed(reading):
    async with reading({DefinitionQuery: LocationsAnswer(places=USES)}) as on:
        view = await at_name(on)
        await on.pilot.press("d")
        await on.until(lambda: isinstance(on.app.screen, PlacesDialog))
        await on.pilot.press("j", "j", "k", "enter")
        await on.until(lambda: view.place.line == 31)
        assert on.panes.preview.path == "src/main.py"


async def test_uses_are_listed_and_one_of_them_goes_into_the_prompt(reading):
    async with reading(
        {ReferencesQuery: LocationsAnswer(places=(PRICES, *USES), problem="pyright looked at open files only.")}
    ) as on:
        await at_name(on)
        await on.pilot.press("r")
        await on.until(lambda: isinstance(on.app.screen, PlacesDialog) and on.app.screen.hit_list.hits)
        dialog = on.app.screen
        assert [hit.path for hit in dialog.hit_list.hits] == [use.path for use in USES]
        rows = [dialog.hit_list.render_line(y).text for y in range(6)]
        assert "prices.py:22" in rows[0]
        assert all(row.isprintable() for row in rows)
        assert "pyright looked at open files only." in str(dialog.query_one(".hits--status", Static).content)
        await on.pilot.press("down", "@")
        await on.until(lambda: on.prompt.has_focus)
        assert on.prompt.text == "@src/main.py:31 "


async def test_what_is_known_of_a_name_is_shown_until_the_cursor_moves(reading):
    async with reading({HoverQuery: HoverAnswer(text=HOVER)}) as on:
        await at_name(on)
        await on.pilot.press("i")
        await on.until(lambda: hover(on))
        assert hover(on) == "def item_5(self) -> int\nThe **fifth** item.␛[2J"
        await on.pilot.press("i")
        assert hover(on) == ""
        await on.pilot.press("i")
        await on.until(lambda: hover(on))
        await on.pilot.press("j")
        assert hover(on) == ""


async def test_a_server_that_takes_its_time_is_waited_for_in_words(reading, monkeypatch):
    monkeypatch.setattr("tui.screens.controllers.search.PATIENCE", 0.01)
    answered = asyncio.Event()
    ask = CodeClient.query

    async def wait(self, query):
        if isinstance(query, HoverQuery):
            await answered.wait()
        return await ask(self, query)

    monkeypatch.setattr(CodeClient, "query", wait)
    async with reading({HoverQuery: HoverAnswer(text="x: int")}) as on:
        await at_name(on)
        await on.pilot.press("i")
        await on.until(lambda: hover(on) == "Asking the language server…")
        answered.set()
        await on.until(lambda: hover(on) != "Asking the language server…")
        assert hover(on) == "x: int"


SYMBOL = SearchHit(path="prices.py", start=22, end=23, symbol="Basket.item_5", kind="method", text=PRICES.text)
ALIKE = SearchHit(path="b.py", start=1, end=2, symbol="item_55", kind="method", text="def item_55(self)")


async def test_without_a_server_the_index_is_asked_and_that_is_said(reading):
    answers = {
        DefinitionQuery: LocationsAnswer(problem=NO_SERVER),
        HoverQuery: HoverAnswer(),
        ReferencesQuery: LocationsAnswer(problem=NO_SERVER),
        SearchQuery: SearchAnswer(hits=(SYMBOL, ALIKE)),
    }
    async with reading(answers) as on:
        view = await at_name(on)
        messages = notes(on)
        await on.pilot.press("i")
        await on.until(lambda: hover(on))
        assert hover(on) == "prices.py:22  def item_5(self) -> int:"
        await on.pilot.press("d")
        await on.until(lambda: on.panes.preview.path == "prices.py" and view.place == (22, 9, "item_5"))
        assert messages == [f"{NO_SERVER} The index has 1 definition of item_5."]
        await on.pilot.press("r")
        await on.until(lambda: isinstance(on.app.screen, PlacesDialog))
        status = on.app.screen.query_one(".hits--status", Static)
        assert "These places have the same word." in str(status.content)
        asked = [(query.text, query.kind) for query in on.client.queries if isinstance(query, SearchQuery)]
        assert asked == [("item_5", "symbols"), ("item_5", "symbols"), ("item_5", "text")]


async def test_what_nobody_knows_is_said(reading):
    async with reading() as on:
        await at_name(on)
        messages = notes(on)
        await on.pilot.press("d")
        await on.until(lambda: messages)
        assert messages[0].endswith("The index has no definition of item_5 (no index).")
        await on.pilot.press("r")
        await on.until(lambda: len(messages) == 2)
        assert messages[1].endswith("The index has no use of item_5 (no index).")
        await on.pilot.press("i")
        await on.until(lambda: hover(on) == "Nothing found about item_5.")


def renaming(client: ScriptedClient, command: AnyCommand) -> Reply | None:
    if isinstance(command, c.SymbolRename):
        if command.new_name == "class":
            return Reject(code="not_renamed", message="class is a keyword.")
        client.emit(ChangeProposed(change=recorded.change("src/main.py")))
        client.answers[IdleQuery] = IdleAnswer(seq=len(client.log))
    return None


async def test_a_renamed_name_waits_in_the_review_and_a_refusal_is_told(reading):
    async with reading(react=renaming) as on:
        await at_name(on)
        messages = notes(on)
        await on.pilot.press("R")
        line = on.panes.preview.query_one("PreviewInput", Input)
        assert line.value == "item_5"
        await on.pilot.press("enter")  # nothing is renamed to what it is called
        await on.pilot.press("R", *(["backspace"] * 6), *"class", "enter")
        await on.until(lambda: messages)
        assert messages == ["class is a keyword."]
        await on.pilot.press("R", *(["backspace"] * 6), *"fifth", "enter")
        await on.until(lambda: on.panes.side.current == "review")
        assert on.sent(c.SymbolRename)[1:] == [
            c.SymbolRename(session=on.screen.state.session_id, path="src/main.py", line=22, column=9, new_name="fifth")
        ]


def test_hovers_are_bounded_and_without_fences():
    assert format_hover("```\nx\n```") == "x"
    assert format_hover("a\n" * 90).split("\n")[11:] == ["a", "…"]


@pytest.mark.slow
@pytest.mark.parametrize("size", [(60, 16), (80, 24), (120, 40)], ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("key", ["r", "i"])
def test_what_is_known_of_a_name_looks_as_it_did(snap_compare, size, key):
    answers = {ReferencesQuery: LocationsAnswer(places=USES), HoverQuery: HoverAnswer(text=HOVER)}
    client = CodeClient(recorded.opening(), answers=answers)

    async def connect() -> ScriptedClient:
        return client

    app = AgentApp(connect, SessionRequest(model="scripted/demo"))

    async def look_up(pilot: Pilot[Any]) -> None:
        while app.main.state.seq < len(client.log):
            await pilot.pause(0.01)
        panes = app.main.controllers.panes
        await panes.preview_file("src/main.py", 22)
        while not panes.preview.query_one(FileView).place.name:
            await pilot.pause(0.01)
        panes.preview.focus()
        view = panes.preview.query_one(FileView)
        while not view.has_focus or not view._painting.get_spans(22):
            await pilot.pause(0.01)
        await pilot.press(key)
        app.key_filter.keystrokes.flush()
        while not (panes.preview.query_one(".preview--hover").display or isinstance(app.screen, PlacesDialog)):
            await pilot.pause(0.01)
        while not app.screen.query(FileView):
            await pilot.pause(0.01)
        file_view = app.screen.query_one(FileView)
        while key == "r" and size[0] >= 80 and not (file_view.has_text and file_view._painting.get_spans(22)):
            await pilot.pause(0.01)

    assert snap_compare(app, terminal_size=size, run_before=look_up)
