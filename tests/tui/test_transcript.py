from __future__ import annotations

import tracemalloc

import pytest
from textual.geometry import Offset
from textual.selection import Selection

from core.protocol import documents as d
from core.protocol import events as e
from tests.support import recorded
from tests.support.work import counted
from tui.chat.streamed_rows import StreamedMarkdown
from tui.chat.transcript import Transcript
from tui.chat.transcript_layout import MAX_RENDERED_BLOCKS
from tui.screens.controllers.sessions import GONE
from tui.state import show_event

ANSWER = (
    "A paragraph of an answer that is long enough to be wrapped once or twice on a screen of this width, surely.\n\n"
)


def answers(count: int) -> list[e.AnyEvent]:
    return [
        e.DocumentFinished(document=d.TextDocument(id=f"x{n}", sequence=1, content=f"**{n}** {ANSWER * 3}"))
        for n in range(count)
    ]


@pytest.mark.parametrize(
    "text",
    [
        "❯ Why is the total of an invoice one cent off?",
        "thought for 3.2 s",
        "Read shop/tax.py · 214 lines",
    ],
)
async def test_calls_of_tools_are_one_line(stage, text):
    events = [*recorded.opening(), recorded.turn()[0], *recorded.reading()]
    async with stage(events) as on:
        assert sum(text in line for line in on.lines()) == 1


async def test_a_row_opens_and_closes_on_enter_and_on_a_click(stage):
    events = [*recorded.opening(), recorded.turn()[0], *recorded.reading()]
    async with stage(events) as on:
        await on.pilot.press("ctrl+up", "enter")
        assert any("RATE = 1.19" in line for line in on.lines())
        await on.pilot.press("space")
        assert not any("RATE = 1.19" in line for line in on.lines())
        row = next(y for y, line in enumerate(on.lines()) if "Read shop" in line)
        await on.pilot.click("#transcript", offset=(6, row))
        assert any("RATE = 1.19" in line for line in on.lines())


async def test_up_and_down_go_from_block_to_block_and_c_copies_without_gutter(stage):
    async with stage([*recorded.opening(), recorded.turn()[0], *recorded.answering()], size=(60, 30)) as on:
        await on.pilot.press("ctrl+up", "up", "up", "c")
        await on.until(lambda: on.app.clipboard)
        assert on.app.clipboard == recorded.MARKDOWN
        await on.pilot.press("g", "c")
        await on.until(lambda: on.app.clipboard != recorded.MARKDOWN)
        assert on.app.clipboard == "Why is the total of an invoice one cent off?"
        await on.pilot.press("j", "c")
        await on.until(lambda: on.app.clipboard == recorded.MARKDOWN)
        await on.pilot.press("G", "down", "k", "j", "y")
        await on.until(lambda: on.app.clipboard.startswith("def total"))
        assert on.app.clipboard == recorded.CODE
        await on.pilot.press("home", "c")
        await on.until(lambda: on.app.clipboard.startswith("Why is"))
        await on.pilot.press("end", "c")
        await on.until(lambda: on.app.clipboard == recorded.CODE)


async def test_a_selection_by_mouse_has_neither_gutters_nor_wraps(stage):
    text = "one two three four five six seven eight nine ten eleven twelve\n\nnext"
    async with stage(
        [*recorded.opening(), e.DocumentFinished(document=d.TextDocument(id="x", sequence=1, content=text))],
        size=(44, 20),
    ) as on:
        assert len([line for line in on.lines() if line]) == 3
        selected = on.transcript.get_selection(Selection(Offset(6, 0), Offset(4, 3)))
        assert selected == ("two three four five six seven eight nine ten eleven twelve\n\nne", "\n")


async def test_the_view_stays_where_it_is_read_and_says_that_something_is_below(stage):
    async with stage([*recorded.opening(), *answers(20)], size=(80, 24)) as on:
        assert on.transcript.scroll_offset.y == on.transcript.max_scroll_y
        on.transcript.scroll_to(y=5, animate=False, force=True, immediate=True)
        before = on.lines()
        await on.emit(*answers(22)[20:])
        assert on.lines()[:-1] == before[:-1]
        assert "↓ new" in on.lines()[-1]
        on.transcript.action_bottom()
        await on.emit(e.Notice(level="info", message="the end"))
        assert any("the end" in line for line in on.lines())


async def test_what_the_user_says_goes_to_the_end(stage):
    async with stage([*recorded.opening(), *answers(20)], size=(80, 24)) as on:
        on.transcript.scroll_to(y=5, animate=False, force=True, immediate=True)
        await on.pilot.press(*"more", "enter")
        await on.emit(e.TurnStarted(prompt="more", mode="agent", model="m"))
        assert on.transcript.scroll_offset.y == on.transcript.max_scroll_y
        assert any("❯ more" in line for line in on.lines())


async def test_another_width_alone_is_nothing_new_below(stage):
    async with stage([*recorded.opening(), *answers(20)], size=(120, 24)) as on:
        on.transcript.scroll_to(y=5, animate=False, force=True, immediate=True)
        await on.pilot.resize_terminal(70, 24)
        await on.pilot.pause(0.1)
        assert not any("↓ new" in line for line in on.lines())


async def test_a_wrapped_line_of_code_hangs(stage):
    code = "def total(lines):\n    return " + " + ".join(f"lines[{n}].net" for n in range(9))
    block = d.CodeBlockDocument(id="x", sequence=1, content=code, metadata=d.CodeBlockMetadata(language="python"))
    async with stage([*recorded.opening(), e.DocumentFinished(document=block)], size=(60, 20)) as on:
        rows = [line for line in on.lines() if "lines[" in line]
        assert rows[0].startswith("        return")
        assert rows[1].startswith("          ")
        assert not rows[1].startswith("           ")
        await on.pilot.press("ctrl+up", "c")
        await on.until(lambda: on.app.clipboard)
        assert on.app.clipboard == code


async def lines_for_one_more(stage, count: int) -> int:
    """The lines of Python that are run to show one more line under so many answers."""
    start = e.TurnStarted(prompt="go", mode="agent", model="m")
    events = [*recorded.opening(), *answers(count), start, e.DocumentStarted(id="live", kind="text", sequence=1)]
    async with stage(events) as on:
        live = on.screen.state.transcript.by_key["live"]
        spent = []
        for number in range(20):
            live.live += f"line {number}\n"
            live.revision += 1
            with counted() as work:
                on.transcript.show(on.screen.state.blocks)
            spent.append(work.lines)
        return sorted(spent)[10]


async def test_one_more_line_costs_the_same_after_three_hundred_answers(stage):
    assert await lines_for_one_more(stage, 300) < 1.2 * await lines_for_one_more(stage, 75)


async def test_a_key_between_an_event_and_its_batch_goes_to_the_newest_block(stage):
    async with stage([*recorded.opening(), *answers(20)], size=(80, 24)) as on:
        newest = on.client.emit(answers(21)[20])
        show_event(on.screen.state, newest)
        on.transcript.action_bottom()
        assert on.transcript.cursor == len(on.screen.state.blocks) - 1
        assert any(line.strip().startswith("20 ") for line in on.lines())


async def test_memory_stays_flat_over_two_hundred_turns(stage):
    async with stage([*recorded.opening(), *answers(100)]) as on:
        await on.emit(*answers(300)[100:])
        tracemalloc.start()
        before = tracemalloc.take_snapshot()
        for _ in range(3):
            on.transcript.action_top()
            on.transcript.action_bottom()
        grown = sum(statistic.size_diff for statistic in tracemalloc.take_snapshot().compare_to(before, "filename"))
        tracemalloc.stop()
        assert len(on.transcript._block_layout._rendered) <= MAX_RENDERED_BLOCKS
        assert grown < 4_000_000


async def test_a_resize_wraps_again_and_stays_at_the_end(stage):
    async with stage([*recorded.opening(), *answers(50)]) as on:
        await on.pilot.resize_terminal(60, 20)
        await on.pilot.pause(0.05)
        assert max(len(line) for line in on.lines()) <= 60
        assert on.transcript.scroll_offset.y == on.transcript.max_scroll_y


async def test_five_thousand_tokens_at_once_are_shown_in_few_batches_and_wrapped_once(stage, monkeypatch):
    start = e.TurnStarted(prompt="go", mode="agent", model="m")
    async with stage([*recorded.opening(), start, e.DocumentStarted(id="x", kind="text", sequence=1)]) as on:
        show_calls, added = list[int](), list[int]()
        show, add = Transcript.show, StreamedMarkdown._add
        monkeypatch.setattr(Transcript, "show", lambda *args: show_calls.append(1) or show(*args))
        monkeypatch.setattr(
            StreamedMarkdown, "_add", lambda live, *args: added.append(len(args[0])) or add(live, *args)
        )
        for number in range(5_000):
            on.client.emit(e.DocumentDelta(id="x", text=f"token{number}{(chr(10) * 2) if number % 15 == 14 else ' '}"))
        on.client.emit(e.DocumentDelta(id="x", text="THE END"))
        await on.until(lambda: any("THE END" in line for line in on.lines()))
        assert 1 <= len(show_calls) < 250
        paragraph = 15 * len("token9999 ")
        assert sum(added) <= len(on.screen.state.transcript.by_key["x"].live) + len(added) * paragraph


async def test_output_of_a_running_command_shows_its_tail(stage):
    start = e.TurnStarted(prompt="go", mode="agent", model="m")
    running = [
        e.DocumentStarted(id="k", kind="terminal_command", sequence=1, title="make"),
        e.ToolRequested(call="c", tool="run_terminal_cmd", arguments="{}", document="k", summary="make"),
        *(e.ToolOutput(call="c", text=f"step {number}\n") for number in range(30)),
    ]
    async with stage([*recorded.opening(), start]) as on:
        await on.emit(*running)
        text = "\n".join(on.lines())
        assert "step 29" in text
        assert "step 5\n" not in text
        assert "… 22 more lines" in text


async def test_a_row_that_textual_drew_for_another_pane_is_still_shown_when_its_turn_comes(stage):
    started = e.SubagentStarted(id="s", todo="docs", title="Write it")
    async with stage([*recorded.opening(), recorded.turn()[0], started, *answers(2)]) as on:
        layout, block = on.transcript._block_layout, on.screen.state.transcript.subagents["s"]
        top = layout.get_top(on.screen.state.blocks.index(block))
        block.revision += 1
        on.transcript.render_line(top)
        layout.sync(on.screen.state.blocks, layout.width)
        assert layout.first_changed_row == top
        layout.sync(on.screen.state.blocks, layout.width)
        assert layout.first_changed_row == layout.height


async def test_an_answer_about_a_call_leads_to_it(stage):
    edits = [edited("edit_1", "a.py"), edited("edit_2", "a.py"), edited("edit_3", "b.py")]
    about = d.TextMetadata(about="edit_1")
    answer = d.TextDocument(id="text_1", sequence=4, content="It broke here.", metadata=about)
    filler = d.TextDocument(id="text_0", sequence=3, content="word\n\n" * 60)
    documents = [*edits, filler, answer]
    started = e.TurnStarted(prompt="go", mode="agent", model="m")
    async with stage([*recorded.opening(), started, *(e.DocumentFinished(document=one) for one in documents)]) as on:
        await on.until(lambda: any("Show the call" in line for line in on.lines()))
        on.transcript.focus()
        await on.pilot.press("end", "enter")
        await on.until(lambda: on.transcript.current_block.key != "text_1")
        assert on.transcript.current_block.key == "edit_2"  # into whose row the first one is folded
        gone = d.TextDocument(id="text_7", sequence=7, content="Or here.", metadata=d.TextMetadata(about="edit_0"))
        await on.emit(e.DocumentFinished(document=gone))
        await on.pilot.press("end", "enter")
        await on.until(lambda: any(notice.message == GONE for notice in on.app._notifications))


def edited(key: str, path: str) -> d.FileEditDocument:
    metadata = d.FileEditMetadata(file_path=path, operation="edit", added=1, tool_name="write", tool_call_id=key)
    return d.FileEditDocument(id=key, sequence=1, metadata=metadata)
