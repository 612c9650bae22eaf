from __future__ import annotations

from typing import Any

from textual.pilot import Pilot
from textual.widgets import Static

from core.protocol.events import DiagnosticsReported
from core.protocol.language import Diagnostic
from core.protocol.queries import FileAnswer
from tests.tui.panes_case import CODE, preview_app
from tui.files.file_view import FileView
from tui.files.messages import MentionRequested
from tui.files.preview import FilePreview


async def shown(pilot: Pilot[None], path: str = "", line: int = 0) -> list[str]:
    if path:
        pilot.app.query_one(FilePreview).show(path, line)
    await pilot.pause()
    await pilot.app.workers.wait_for_complete()
    await pilot.pause()
    page = pilot.app.query_one(FileView)
    return [page.render_line(y).text.rstrip() for y in range(page.size.height)]


async def test_a_file_shows_with_numbers_and_colours():
    app = preview_app()
    async with app.run_test(size=(80, 20)) as pilot:
        rows = await shown(pilot, "src/main.py")
        assert rows[0] == '▌  1  """Prices of the shop."""'
        page = app.query_one(FileView)
        assert len({s.style.color for s in page.render_line(2) if s.style and s.text.strip()}) > 2


async def test_a_line_is_brought_into_view_and_marked():
    app = preview_app()
    async with app.run_test(size=(80, 20)) as pilot:
        rows = await shown(pilot, "src/main.py", 90)
        assert [row for row in rows if row.startswith("▌")] == [next(row for row in rows if " 90" in row[:6])]
        await pilot.press("g")
        assert (await shown(pilot))[0].startswith("▌  1")
        await pilot.press("G")
        assert (await shown(pilot))[-1].startswith("▌126")


async def test_a_line_of_a_file_that_is_read_unseen_has_the_lines_before_it_in_view():
    app = preview_app()
    async with app.run_test(size=(80, 20)) as pilot:
        preview = app.query_one(FilePreview)
        preview.display = False
        await shown(pilot, "src/main.py", 90)
        preview.display = True
        rows = await shown(pilot)
        assert [row[1:5].strip() for row in rows[:6]] == ["85", "86", "87", "88", "89", "90"]


async def test_the_same_file_again_keeps_the_place():
    app = preview_app()
    async with app.run_test(size=(80, 20)) as pilot:
        await shown(pilot, "src/main.py")
        await pilot.press("pagedown")
        before = await shown(pilot)
        assert await shown(pilot, "src/main.py") == before


async def test_a_problem_and_an_empty_file_are_told_in_words():
    app = preview_app()
    app.files["a.bin"] = FileAnswer(path="a.bin", text="", problem="binary file of 3 kB\x1b[2J")
    app.files["empty"] = FileAnswer(path="empty", text="")
    async with app.run_test(size=(80, 20)) as pilot:
        assert "No file open" in "\n".join(await shown(pilot))
        assert "binary file of 3 kB" in "\n".join(await shown(pilot, "a.bin"))
        assert "The file is empty" in "\n".join(await shown(pilot, "empty"))
        assert "Can't show this file" in "\n".join(await shown(pilot, "missing"))


async def test_hostile_text_shows_as_text_t1_t4():
    app = preview_app()
    text = "[@click=app.quit]x[/]\x1b]52;c;x\x07\u202e\nb\x00\r\n[/nope]\t|" + "y" * 1_000_000
    app.files["[/p]\x1b[2J"] = FileAnswer(path="p", text=text, size=9)
    async with app.run_test(size=(80, 20)) as pilot:
        rows = await shown(pilot, "[/p]\x1b[2J")
        assert all(row.isprintable() for row in rows)
        assert rows[0].endswith("[@click=app.quit]x[/]␛]52;c;x␇‹U+202E›")
        assert rows[2].startswith("   3  [/nope]")
        await pilot.click(FileView, offset=(12, 0))
        await pilot.resize_terminal(20, 5)
        assert len(await shown(pilot)) == 4


async def refreshed(pilot: Pilot[None], path: str, text: str, *changed_paths: str) -> list[str]:
    app: Any = pilot.app
    app.files[path] = FileAnswer(path=path, text=text, language="python", size=len(text))
    app.query_one(FilePreview).refresh_paths(frozenset(changed_paths or (path,)))
    return await shown(pilot)


def current(rows: list[str]) -> str:
    return next(row for row in rows if row.startswith("▌"))


async def test_a_file_that_changes_is_shown_as_it_is_now_and_the_cursor_stays_with_its_line():
    app = preview_app()
    async with app.run_test(size=(80, 20)) as pilot:
        before = await shown(pilot, "src/main.py", 90)
        at = before.index(current(before))
        after = await refreshed(pilot, "src/main.py", "import math\n" + CODE)
        assert current(after).split(maxsplit=1) == ["▌", current(before).split(maxsplit=1)[1].replace("90", "91", 1)]
        assert after.index(current(after)) == at
        assert current(await refreshed(pilot, "src/main.py", CODE.replace("number", "n"))).startswith("▌ 90")


async def test_what_changes_elsewhere_is_not_read_again_and_what_nobody_names_is():
    app = preview_app()
    async with app.run_test(size=(80, 20)) as pilot:
        await shown(pilot, "src/main.py")
        await refreshed(pilot, "src/main.py", CODE, "src/other.py")
        assert app.loads == ["src/main.py"]
        app.query_one(FilePreview).refresh_paths(frozenset())
        await shown(pilot)
        assert app.loads == ["src/main.py", "src/main.py"]


async def test_a_hidden_preview_reads_a_changed_file_when_it_is_seen_again():
    app = preview_app()
    async with app.run_test(size=(80, 20)) as pilot:
        await shown(pilot, "src/main.py")
        app.query_one(FilePreview).display = False
        await pilot.pause()
        await refreshed(pilot, "src/main.py", "x = 1\n")
        assert app.loads == ["src/main.py"]
        app.query_one(FilePreview).display = True
        assert "x = 1" in (await shown(pilot))[0]


async def test_a_file_that_is_gone_is_said_and_comes_back_at_its_place():
    app = preview_app()
    async with app.run_test(size=(80, 20)) as pilot:
        await shown(pilot, "src/main.py", 90)
        app.files["src/main.py"] = FileAnswer(path="src/main.py", text="", problem="There is no such file.")
        app.query_one(FilePreview).refresh_paths(frozenset({"src/main.py"}))
        assert "No preview any more" in "\n".join(await shown(pilot))
        assert current(await refreshed(pilot, "src/main.py", CODE)).startswith("▌ 90")


async def test_keys_move_the_cursor_and_mark_lines():
    app = preview_app()
    async with app.run_test(size=(80, 20)) as pilot:
        await shown(pilot, "src/main.py")
        preview = app.query_one(FilePreview)
        preview.focus()
        await pilot.press("j", "down", "k", "down", "up", "J", "shift+down", "J", "K", "shift+up")
        assert preview.marked_lines == (2, 3)
        assert "lines 2–3" in str(app.query_one(".preview--title", Static).content)
        await pilot.press("@")
        assert app.posted == [MentionRequested("src/main.py", 2, 3)]
        await pilot.press("pagedown")
        assert (preview.marked_lines, current(await shown(pilot))[:4]) == ((0, 0), "▌ 21")
        await pilot.press("pageup")
        assert current(await shown(pilot))[:4] == "▌  3"
        await pilot.press("space")
        assert current(await shown(pilot))[:4] == "▌ 21"
        await pilot.press("G", "g", "@")
        assert app.posted[1:] == [MentionRequested("src/main.py")]


async def test_the_mouse_puts_the_cursor_and_marks_with_shift():
    app = preview_app()
    async with app.run_test(size=(80, 20)) as pilot:
        await shown(pilot, "src/main.py")
        view = app.query_one(FileView)
        await pilot.click(FileView, offset=(15, 6))
        assert view.place == (7, 9, "item_0")
        await pilot.click(FileView, offset=(15, 9), shift=True)
        assert view.marked_lines == (7, 10)
        await pilot.mouse_down(FileView, offset=(8, 2))
        await pilot.hover(FileView, offset=(8, 5))
        await pilot.mouse_up(FileView, offset=(8, 5))
        assert view.marked_lines == (3, 6)


async def test_names_are_gone_through_and_keywords_left_out():
    app = preview_app()
    async with app.run_test(size=(80, 20)) as pilot:
        await shown(pilot, "src/main.py", 7)
        view = app.query_one(FileView)
        view.focus()
        await pilot.pause(0.1)
        await pilot.app.workers.wait_for_complete()
        assert view.place == (7, 9, "item_0")
        await pilot.press("w", "w")
        assert view.place == (7, 25, "int")
        await pilot.press("w")
        assert view.place.line == 8
        await pilot.press("b")
        assert view.place == (7, 25, "int")


async def test_a_name_beyond_the_edge_comes_into_view():
    text = f"def long({'x' * 40}, last): ...\n"
    app = preview_app()
    app.files["a.py"] = FileAnswer(path="a.py", text=text, language="python", size=len(text))
    async with app.run_test(size=(40, 10)) as pilot:
        await shown(pilot, "a.py", 1)
        view = app.query_one(FileView)
        view.focus()
        await pilot.press("w", "w")
        assert view.place.name == "last"
        assert "last" in (await shown(pilot))[0]
        await pilot.press("b", "b")
        assert "def long" in (await shown(pilot))[0]
        app.query_one(FilePreview).show("a.py", 1, text.index("last") + 1)
        assert "last" in (await shown(pilot))[0]


async def test_words_are_found_as_they_are_typed_and_gone_through():
    app = preview_app()
    async with app.run_test(size=(80, 20)) as pilot:
        await shown(pilot, "src/main.py", 20)
        app.query_one(FilePreview).focus()
        await pilot.press("/", *"item_1", "enter")
        assert current(await shown(pilot)).startswith("▌ 37      def item_10")
        assert "“item_1” 2/11" in str(app.query_one(".preview--title", Static).content)
        await pilot.press("n")
        assert current(await shown(pilot)).startswith("▌ 40")
        await pilot.press("N", "N", "N")
        assert current(await shown(pilot)).startswith("▌ 64")
        await pilot.press("/", *"23", "escape")
        assert current(await shown(pilot)).startswith("▌ 64")
        assert "“" not in str(app.query_one(".preview--title", Static).content)


async def test_a_line_is_gone_to_by_its_number():
    app = preview_app()
    async with app.run_test(size=(80, 20)) as pilot:
        await shown(pilot, "src/main.py")
        app.query_one(FilePreview).focus()
        await pilot.press(":", *"77", "enter")
        assert current(await shown(pilot)).startswith("▌ 77")
        await pilot.press(":", *"x9", "enter")
        assert current(await shown(pilot)).startswith("▌ 77")
        await pilot.press(":", *"99999", "enter")
        assert current(await shown(pilot)).startswith("▌126")


async def test_line_numbers_are_those_of_the_file_whatever_sequences_it_holds():
    app = preview_app()
    text = "a\n\x1b]0;title\nb\x07\n\tc = é\x1b[31md\n"
    app.files["x.py"] = FileAnswer(path="x.py", text=text, size=9)
    async with app.run_test(size=(80, 20)) as pilot:
        rows = await shown(pilot, "x.py", 4)
        assert rows[3].startswith("▌  4")
        view = app.query_one(FileView)
        await pilot.click(FileView, offset=(6 + rows[3][6:].index("é"), 3))
        assert view.place == (4, 6, "é")


async def test_what_is_wrong_is_marked_beside_its_line_and_told_at_the_cursor():
    app = preview_app()
    diagnostic = Diagnostic(path="src/main.py", line=8, severity="error", message="no [b]int[/b]\x1b[2J", source="ty")
    async with app.run_test(size=(80, 20)) as pilot:
        await shown(pilot, "src/main.py")
        preview = app.query_one(FilePreview)
        preview.set_diagnostics({"src/main.py": DiagnosticsReported(path="src/main.py", diagnostics=(diagnostic,))})
        rows = await shown(pilot)
        assert [row[:6].rstrip() for row in rows[6:9]] == ["   7", "   8✗", "   9"]
        panel = app.query_one(".preview--hover", Static)
        assert not panel.display
        preview.focus()
        await pilot.press(":", "8", "enter")
        assert (panel.display, str(panel.content)) == (True, "✗ no [b]int[/b]␛[2J  (ty)")
        preview.set_diagnostics({})
        assert not panel.display
        assert "✗" not in "".join(await shown(pilot))


async def at_line(pilot: Pilot[None]) -> None:
    await shown(pilot, "src/main.py", 12)


def test_the_preview_looks_as_it_did(snap_compare):
    assert snap_compare(preview_app(), terminal_size=(120, 40), run_before=at_line)
