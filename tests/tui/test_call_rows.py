from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from core.protocol import documents as d
from core.protocol import events as e
from core.state.call_words import describe_call
from core.tools.builtin import BUILTIN
from tests.support import recorded
from tui.block import TranscriptBlock
from tui.chat.command_rows import render_command

START = e.TurnStarted(prompt="go", mode="plan", model="m")


def call(tool: str, subject: str, arguments: dict[str, Any], summary: str, status: e.ToolStatus) -> list[e.AnyEvent]:
    result = d.ToolResult(status="success" if status == "completed" else "error", data="what the model was told")
    tool_call_metadata = d.ToolCallMetadata(
        tool_name=tool, tool_call_id="c", arguments=arguments, result=result, summary=summary
    )
    return [
        e.DocumentStarted(id="t", kind="tool_call", sequence=1, title=tool),
        e.ToolRequested(call="c", tool=tool, arguments="{}", document="t", summary=subject),
        e.DocumentFinished(document=d.ToolCallDocument(id="t", sequence=1, metadata=tool_call_metadata)),
        e.ToolFinished(call="c", tool=tool, status=status, duration_ms=3, summary=summary),
    ]


READ = ("read_file", "rich/align.py from line 1, 60 lines", {"target_file": "rich/align.py", "limit": 60})
GREP = ("grep", "class Align in rich", {"query": "class Align", "path": "rich"})
WROTE = ("mcp__files__write_file", "files:write_file", {"path": "b.txt", "content": "x\n" * 99, "deep": {"a": 1}})
REFUSAL = "Not run: plan mode does not allow search_replace (propose). Nothing was changed."


@pytest.mark.parametrize(
    ("events", "row"),
    [
        (
            call(*READ, "lines 1-60 of 320", "completed"),
            "▸ Read rich/align.py · lines 1-60 of 320",
        ),
        (call(*GREP, "1 match in 1 file", "completed"), '▸ Searched for "class Align" in rich · 1 match in 1 file'),
        (call(*WROTE, "changed: b.txt", "completed"), "▸ files:write_file b.txt, x x x"),
        (call(*READ, "There is no file rich/align.py.", "failed"), "✕ Read rich/align.py · There is no file"),
    ],
)
async def test_the_row_of_a_call_says_what_it_was_about_and_what_came_of_it(stage, events, row):
    async with stage([*recorded.opening(), START, *events]) as on:
        assert any(row in line for line in on.lines()), on.lines()


def error_of(call_id: str, tool: str, message: str) -> list[e.AnyEvent]:
    why = d.ErrorMetadata(error_code="PERMISSION_DENIED", source=tool, tool_call_id=call_id)
    return [
        e.DocumentStarted(id="why", kind="error", sequence=2, title=message),
        e.DocumentFinished(document=d.ErrorDocument(id="why", sequence=2, content=message, metadata=why)),
    ]


async def test_a_running_call_says_what_it_is_about(stage):
    async with stage([*recorded.opening(), START, *call(*GREP, "", "completed")[:2]]) as on:
        assert any("◌ Searching for class Align in rich" in line for line in on.lines()), on.lines()


async def test_a_call_that_is_made_by_another_is_named_by_the_tool_that_is_meant_before_it_has_ended(stage):
    began, asked = call("web_fetch", "http://docs.example/", {}, "", "completed")[:2]
    async with stage([*recorded.opening(), START, replace(began, title="call_tool"), asked]) as on:
        assert any("◌ Fetching http://docs.example/" in line for line in on.lines()), on.lines()


async def test_an_edit_that_the_mode_refuses_says_so_and_opens_to_what_the_model_was_told(stage):
    edit = d.FileEditMetadata(file_path="rich/box.py", operation="edit", status="error", tool_call_id="c")
    events = [
        e.DocumentStarted(id="t", kind="file_edit", sequence=1, title="search_replace"),
        e.ToolRequested(call="c", tool="search_replace", arguments="{}", document="t", summary="rich/box.py"),
        e.DocumentFinished(document=d.FileEditDocument(id="t", sequence=1, content=REFUSAL, metadata=edit)),
        *error_of("c", "search_replace", "edits are not granted in Plan mode"),
        e.ToolFinished(call="c", tool="search_replace", status="denied", summary=REFUSAL),
    ]
    async with stage([*recorded.opening("plan"), START, *events]) as on:
        assert any("⊘ Edit rich/box.py · not in Plan mode" in line for line in on.lines()), on.lines()
        assert not any("Nothing was changed" in line or "not granted" in line for line in on.lines())
        await on.pilot.press("ctrl+up", "enter")
        assert any("Nothing was changed" in line for line in on.lines())


async def test_a_patch_over_two_files_is_a_row_for_each_and_a_rename_names_both(stage):
    first = d.FileEditMetadata(file_path="a.py", operation="edit", tool_call_id="c", added=1, removed=1)
    moved = replace(first, file_path="c.py", operation="rename", renamed_from="b.py")
    events = [
        e.DocumentStarted(id="t", kind="file_edit", sequence=1, title="apply_patch"),
        e.ToolRequested(call="c", tool="apply_patch", arguments="{}", document="t", summary="a.py, b.py, c.py"),
        e.DocumentFinished(document=d.FileEditDocument(id="t", sequence=1, content="", metadata=first)),
        e.DocumentStarted(id="u", kind="file_edit", sequence=2, title="c.py"),
        e.DocumentFinished(document=d.FileEditDocument(id="u", sequence=2, content="", metadata=moved)),
        e.ToolFinished(call="c", tool="apply_patch", status="completed"),
    ]
    async with stage([*recorded.opening(), START, *events]) as on:
        lines = [line.strip() for line in on.lines() if "+1 −1" in line]
        assert [line.split("  ")[0] for line in lines] == ["▸ Edited a.py", "▸ Renamed b.py → c.py"]


async def test_a_command_that_the_user_refused_says_so(stage):
    refusal = "Not run: The user refused this call. Nothing was changed."
    run = d.TerminalCommandMetadata(command="make", output=refusal, tool_call_id="c")
    events = [
        e.DocumentStarted(id="t", kind="terminal_command", sequence=1, title="run_terminal_cmd"),
        e.ToolRequested(call="c", tool="run_terminal_cmd", arguments="{}", document="t", summary="make"),
        e.DocumentFinished(document=d.TerminalCommandDocument(id="t", sequence=1, metadata=run)),
        e.ToolFinished(call="c", tool="run_terminal_cmd", status="denied", summary=refusal),
    ]
    async with stage([*recorded.opening(), START, *events]) as on:
        assert any(line.rstrip().endswith("⊘ Run make · refused") for line in on.lines()), on.lines()


@pytest.mark.parametrize(("size", "end"), [((120, 40), " · exit 3 · 1.2 s"), ((44, 16), " · exit 3 · 1.2 s")])
async def test_how_a_long_command_ended_is_not_cut(stage, size, end):
    run = d.TerminalCommandMetadata(command="make " * 60, exit_code=3, duration_ms=1200, effects="changed: a.py")
    events = [
        e.DocumentStarted(id="t", kind="terminal_command", sequence=1, title="run_terminal_cmd"),
        e.ToolRequested(call="c", tool="run_terminal_cmd", arguments="{}", document="t", summary=run.command),
        e.DocumentFinished(document=d.TerminalCommandDocument(id="t", sequence=1, metadata=run)),
        e.ToolFinished(call="c", tool="run_terminal_cmd", status="completed"),
    ]
    async with stage([*recorded.opening(), START, *events], size=size) as on:
        (row,) = [line.rstrip() for line in on.lines() if "✕ Ran make" in line]
        assert "…" in row
        assert row.endswith(end)
        assert size[0] - 10 <= len(row) < size[0]


@pytest.mark.parametrize(
    ("width", "told"),
    [
        (120, "edited a.py; created gen/two.txt; 1 generated file"),
        (76, "edited a.py; created gen/two.txt and 1 more"),
        (58, "edited a.py and 2 more"),
        (36, ""),
    ],
)
def test_a_command_row_says_as_much_of_what_was_changed_as_fits(width, told):
    effects = "changed: edited a.py; created gen/two.txt; 1 generated file; pending review; a note"
    run = d.TerminalCommandMetadata(command="make", exit_code=0, duration_ms=1200, effects=effects)
    block = TranscriptBlock(
        "t", "terminal_command", "turn", document=d.TerminalCommandDocument(id="t", sequence=1, metadata=run)
    )
    (row,) = render_command(block, width, is_open=False)
    text = "".join(piece[0] for piece in row.pieces)
    assert text.endswith(f" · {told}" if told else "1.2 s")
    assert "pending" not in text


def test_a_command_that_left_the_box_says_so_first_and_what_it_changed_on_the_disk():
    effects = "changed: created v1.txt; not for review; git's own state changed"
    run = d.TerminalCommandMetadata(command="make tag", exit_code=0, permissions=("all",), effects=effects)
    block = TranscriptBlock(
        "t", "terminal_command", "turn", document=d.TerminalCommandDocument(id="t", sequence=1, metadata=run)
    )
    (row,) = render_command(block, 100, is_open=False)
    text = "".join(piece[0] for piece in row.pieces)
    assert "on your machine $ make tag" in text
    assert text.endswith("created v1.txt")


def command_block(run: d.TerminalCommandMetadata, **more: Any) -> TranscriptBlock:
    document = d.TerminalCommandDocument(id="t", sequence=1, metadata=run)
    return TranscriptBlock("t", "terminal_command", "turn", title="run_terminal_cmd", document=document, **more)


def texts(block: TranscriptBlock, *, is_open: bool = False) -> list[str]:
    return [row.text.strip() for row in render_command(block, 100, is_open)]


def test_the_row_of_a_test_run_says_what_was_counted():
    run = d.TerminalCommandMetadata(
        command="pytest", exit_code=0, output="....\n12 passed in 3.0s\n", tests="12 passed", duration_ms=3100
    )
    assert texts(command_block(run)) == ["▸ Ran pytest · 12 passed · 3.1 s"]


def test_n26_the_row_of_a_command_that_is_no_check_counts_nothing_that_it_prints():
    run = d.TerminalCommandMetadata(command="cat ci.log", exit_code=0, output="12 passed in 3.0s\n", duration_ms=3100)
    assert texts(command_block(run)) == ["▸ Ran cat ci.log · ok · 3.1 s"]


def test_n25_how_a_command_of_a_hosted_agent_ended_is_shown_as_its_report():
    run = d.TerminalCommandMetadata(command="pytest", exit_code=0, output="9 passed in 1s\n", is_reported=True)
    assert texts(command_block(run))[0].startswith("▸ Ran pytest · ended, says the agent")
    failed = d.TerminalCommandMetadata(command="pytest", exit_code=2, output="x\n", is_reported=True)
    assert " · exit 2, says the agent" in texts(command_block(failed))[0]


def test_a_command_that_failed_says_what_failed_and_opened_all_of_its_lines_below_the_command():
    output = "collected 3\n.F.\n\nE  assert 1 == 2\nFAILED test_a.py::test_one\n1 failed, 2 passed in 0.5s\n"
    run = d.TerminalCommandMetadata(
        command="pytest -q", exit_code=1, output=output, tests="1 failed, 2 passed", duration_ms=600
    )
    assert texts(command_block(run)) == [
        "✕ Ran pytest -q · exit 1 · 1 failed, 2 passed · 600 ms",
        "E  assert 1 == 2",
        "FAILED test_a.py::test_one",
    ]
    opened = texts(command_block(run), is_open=True)
    assert opened[:3] == ["▾ Ran pytest -q · exit 1 · 1 failed, 2 passed · 600 ms", "pytest -q", "collected 3"]


def test_the_name_of_a_failing_test_takes_as_many_rows_as_it_needs_and_rules_take_none():
    name = f"test_total_{'of_many_items_' * 8}end"
    output = (
        f"=== FAILURES ===\nmuch\n=== short test summary info ===\nFAILED tests/unit/test_a.py::{name} - assert 1\n"
    )
    run = d.TerminalCommandMetadata(command="pytest -q", exit_code=1, output=output)
    _, *rows = texts(command_block(run))
    assert len(rows) > 1
    assert "".join(rows).replace(" ", "") == f"FAILED…/test_a.py::{name}"


def test_a_long_command_is_cut_in_its_middle_and_its_outcome_is_not():
    words = f"python -m pytest {'-q ' * 60} tests/unit/test_prices.py"
    (row,) = texts(command_block(d.TerminalCommandMetadata(command=words, exit_code=0, duration_ms=2_000)))
    assert row.startswith("▸ Ran python -m pytest -q")
    assert "…" in row
    assert row.endswith("tests/unit/test_prices.py · ok · 2.0 s")


def test_what_was_in_view_when_a_command_was_stopped_stays():
    output = "Stopped before it finished.\nIts output until then:\n" + "".join(
        f"line {number}\n" for number in range(20)
    )
    run = d.TerminalCommandMetadata(command="make watch", exit_code=None, output=output)
    rows = texts(command_block(run, status="cancelled"))
    assert rows[0] == "⊘ Ran make watch · stopped"
    assert rows[1:] == ["… 14 more lines", *(f"line {number}" for number in range(12, 20))]


def test_a_command_of_the_user_says_that_it_ran_in_the_shadow():
    run = d.TerminalCommandMetadata(command="make", exit_code=0, output="built", tool_call_id="user_1")
    assert texts(command_block(run))[0].startswith("▸ shadow $ make · ok")


@pytest.mark.parametrize(
    ("tool", "where"),
    [("user_command", "shadow"), ("project_command", "project"), ("machine_command", "on your machine")],
)
async def test_a_command_of_the_user_says_where_it_runs_while_it_does(stage, tool, where):
    begun = e.DocumentStarted(id="doc_1", kind="terminal_command", sequence=0, title="make")
    call = e.ToolRequested(call="user_1", tool=tool, arguments="{}", document="doc_1", summary="make")
    async with stage([*recorded.opening(), begun, call]) as on:
        await on.until(lambda: any("$ make" in line for line in on.lines()))
        assert sum(f"{where} $ make" in line for line in on.lines()) == 1


@pytest.mark.parametrize("tool", [each.name for each in BUILTIN])
def test_no_row_shows_the_name_of_a_tool_of_ours(tool):
    assert "_" not in describe_call(tool, is_running=False)
    assert describe_call(tool, is_running=False)[0].isupper()
    assert describe_call(tool, is_running=True) != describe_call(tool, is_running=False)


def edit_events(document: str, path: str, old: str, new: str) -> list[e.AnyEvent]:
    diff = d.FileEditDiff(old_string=old, new_string=new, start_line=1, end_line=1)
    file_edit_metadata = d.FileEditMetadata(
        file_path=path, operation="edit", diff=diff, tool_call_id=document, added=1, removed=1
    )
    return [
        e.DocumentStarted(id=document, kind="file_edit", sequence=1, title="search_replace"),
        e.ToolRequested(call=document, tool="search_replace", arguments="{}", document=document, summary=path),
        e.DocumentFinished(
            document=d.FileEditDocument(id=document, sequence=1, content="", metadata=file_edit_metadata)
        ),
        e.ToolFinished(call=document, tool="search_replace", status="completed"),
    ]


async def test_edits_of_one_file_are_one_row_that_unfolds_to_all_their_lines(stage):
    first, second = edit_events("a", "prices.py", "one\n", "uno\n"), edit_events("b", "prices.py", "two\n", "due\n")
    other = edit_events("c", "tax.py", "three\n", "tre\n")
    async with stage([*recorded.opening(), START, *first, *second, *other]) as on:
        rows = [line.strip() for line in on.lines() if "Edited" in line]
        assert rows == ["▸ Edited prices.py  +2 −2 · 2 edits", "▸ Edited tax.py  +1 −1"]
        await on.pilot.press("ctrl+up", "up", "enter")
        lines = [line.strip("▌ ") for line in on.lines()]
        assert [line for line in lines if line[:1] in {"+", "-"}] == ["- one", "+ uno", "- two", "+ due"]


async def test_edits_between_which_the_conversation_can_be_taken_back_to_stay_apart(stage):
    point = e.CheckpointCreated(id="cp", seq=1, before="b")
    edits = [*edit_events("a", "p.py", "1", "2"), point, *edit_events("b", "p.py", "2", "3")]
    async with stage([*recorded.opening(), START, *edits]) as on:
        assert sum("Edited p.py" in line for line in on.lines()) == 2


async def test_a_call_of_a_program_is_indented_below_it(stage):
    events = [
        replace(event, parent="program") if isinstance(event, e.ToolRequested) else event
        for event in call(*READ, "lines 1-60 of 320", "completed")
    ]
    async with stage([*recorded.opening(), START, *call(*READ, "lines 1-60 of 320", "completed")]) as on:
        (plain,) = [line for line in on.lines() if "Read rich" in line]
    async with stage([*recorded.opening(), START, *events]) as on:
        (inner,) = [line for line in on.lines() if "Read rich" in line]
    assert inner.index("▸") == plain.index("▸") + 2


def inner_call(number: int, status: e.ToolStatus = "completed") -> list[e.AnyEvent]:
    """A call of the program `p` that reads a file."""
    key, path = f"i{number}", f"src/file{number}.py"
    result = d.ToolResult(status="success" if status == "completed" else "error", data="text")
    metadata = d.ToolCallMetadata(
        tool_name="read_file", tool_call_id=key, arguments={"target_file": path}, result=result, summary="3 lines"
    )
    return [
        e.DocumentStarted(id=key, kind="tool_call", sequence=number + 2, title="read_file"),
        e.ToolRequested(call=key, tool="read_file", arguments="{}", document=key, summary=path, parent="p"),
        e.DocumentFinished(document=d.ToolCallDocument(id=key, sequence=number + 2, metadata=metadata)),
        e.ToolFinished(call=key, tool="read_file", status=status, summary="3 lines"),
    ]


@pytest.mark.parametrize("size", [(120, 40), (60, 16)])
async def test_of_a_program_with_many_calls_the_last_ones_have_rows_and_the_others_a_number(stage, size):
    run = d.TerminalCommandMetadata(command="for path in paths: …", exit_code=0, tool_call_id="p")
    events = [
        e.DocumentStarted(id="p", kind="terminal_command", sequence=1, title="run_code"),
        e.ToolRequested(call="p", tool="run_code", arguments="{}", document="p", summary=run.command),
        *(event for number in range(40) for event in inner_call(number, "failed" if number == 3 else "completed")),
        e.DocumentFinished(document=d.TerminalCommandDocument(id="p", sequence=1, metadata=run)),
        e.ToolFinished(call="p", tool="run_code", status="completed"),
    ]
    async with stage([*recorded.opening(), START, *events], size=size) as on:
        lines = [line.strip() for line in on.lines()]
        rows = [line for line in lines if "src/file" in line]
        assert [line.split("src/file")[1].split(".py")[0] for line in rows] == ["3", "35", "36", "37", "38", "39"]
        assert any(line.startswith("34 earlier calls that changed nothing") for line in lines), lines
