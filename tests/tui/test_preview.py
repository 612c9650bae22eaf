from __future__ import annotations

from textual.pilot import Pilot

from core.protocol.queries import FileAnswer
from tests.tui.panes_case import preview_app
from tui.files.preview import FilePreview, FileView


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
        assert rows[0] == '   1  """Prices of the shop."""'
        page = app.query_one(FileView)
        assert len({s.style.color for s in page.render_line(2) if s.style and s.text.strip()}) > 2


async def test_a_line_is_brought_into_view_and_marked():
    app = preview_app()
    async with app.run_test(size=(80, 20)) as pilot:
        rows = await shown(pilot, "src/main.py", 90)
        assert [row for row in rows if row.startswith("▌")] == [next(row for row in rows if " 90" in row[:6])]
        await pilot.press("g")
        assert (await shown(pilot))[0].startswith("   1")
        await pilot.press("G")
        assert " 126" in (await shown(pilot))[-1][:6]


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
        assert "No file is shown" in "\n".join(await shown(pilot))
        assert "binary file of 3 kB" in "\n".join(await shown(pilot, "a.bin"))
        assert "The file is empty" in "\n".join(await shown(pilot, "empty"))
        assert "The file can't be shown" in "\n".join(await shown(pilot, "missing"))


async def test_hostile_text_shows_as_text_t1_t4():
    app = preview_app()
    text = "[@click=app.quit]x[/]\x1b]52;c;x\x07\u202e\nb\x00\r\n[/nope]\t|" + "y" * 1_000_000
    app.files["[/p]\x1b[2J"] = FileAnswer(path="p", text=text, size=9)
    async with app.run_test(size=(80, 20)) as pilot:
        rows = await shown(pilot, "[/p]\x1b[2J")
        assert all(row.isprintable() for row in rows)
        assert rows[0].endswith("[@click=app.quit]x[/]‹U+202E›")
        assert rows[2].startswith("   3  [/nope]")
        await pilot.click(FileView, offset=(12, 0))
        await pilot.resize_terminal(20, 5)
        assert len(await shown(pilot)) == 4


async def at_line(pilot: Pilot[None]) -> None:
    await shown(pilot, "src/main.py", 12)


def test_the_preview_looks_as_it_did(snap_compare):
    assert snap_compare(preview_app(), terminal_size=(120, 40), run_before=at_line)
