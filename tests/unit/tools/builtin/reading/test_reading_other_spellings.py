from __future__ import annotations

import json

import pytest

from core.errors import ToolInputInvalid
from core.tools.arguments import build_offered_schema
from core.tools.toolset import Toolset

TOOLS = Toolset()


async def call(files, tool: str, **arguments) -> str:
    outcome = await TOOLS.parse(tool, json.dumps(arguments)).run(files)
    return outcome.content


async def test_grep_takes_the_options_of_the_command_line(files):
    files.put("a.py", "0\n1\nHIT\n3\n4\n")
    output = await call(files, "Grep", **{"pattern": "hit", "-i": True, "-n": True, "-A": 2, "-B": 1})
    assert output == "1 match in 1 file\n\na.py\n2-1\n3:HIT\n4-3\n5-4"


async def test_context_beyond_the_bound_is_cut_and_one_side_keeps_the_common_number(files):
    files.put("a.txt", "".join(f"{n}\n" for n in range(1, 100)))
    output = await call(files, "Grep", **{"pattern": "^50$", "-C": 1, "-A": 1000})
    assert output.splitlines()[3:5] == ["49-49", "50:50"]
    assert output.splitlines()[-1] == "70-70"


async def test_grep_lists_files_or_counts_pending_ones_included(files):
    files.put("a.py", "x\nx\n")
    files.write("b.py", b"x\n")
    assert await call(files, "grep", pattern="x", output_mode="files_with_matches") == (
        "2 files with matches\na.py\nb.py"
    )
    assert await call(files, "grep", pattern="x", output_mode="count") == "2 files with matches\na.py:2\nb.py:1"
    assert await call(files, "grep", pattern="y", output_mode="count") == "No matches for y"


async def test_a_file_of_more_matches_than_are_looked_at_is_counted_with_a_plus(files):
    files.put("a.txt", "x\n" * 500)
    assert (await call(files, "grep", pattern="x", output_mode="count")).endswith("a.txt:200+")


@pytest.mark.parametrize(
    ("mode", "shown"),
    [("content", "a.py\n1:x"), ("files_with_matches", "a.py"), ("count", "a.py:1")],
)
async def test_head_limit_bounds_what_is_shown_and_that_is_said(files, mode, shown):
    files.put("a.py", "x\n")
    files.put("b.py", "x\n")
    output = await call(files, "grep", pattern="x", output_mode=mode, head_limit=1)
    assert output.endswith(f"\n{shown}")
    assert "b.py" not in output
    assert "the first 1 shown" in output


async def test_a_pattern_may_go_over_lines_and_a_type_leaves_other_files_out(files):
    files.put("a.py", "def f(\n    x):\n")
    files.put("a.js", "def f(\n    x):\n")
    output = await call(files, "grep", pattern=r"f\(.*x\)", multiline=True, type="py")
    assert output.endswith("\na.py\n1:def f(\n2:    x):")
    assert "a.js" not in output


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"type": "klingon"}, "klingon"),
        ({"output_mode": "everything"}, "everything"),
        ({"head_limit": -1}, "head_limit"),
        ({"-A": "b"}, "after_context"),
    ],
)
async def test_what_grep_does_not_know_is_refused_by_name(files, wrong, word):
    files.put("a.py", "x\n")
    with pytest.raises(ToolInputInvalid, match=word):
        await call(files, "grep", pattern="x", **wrong)


@pytest.mark.parametrize(
    ("tool", "arguments", "lines"),
    [
        ("read_file", {"start_line_one_indexed": 2, "end_line_one_indexed_inclusive": 3}, "2 3"),
        ("ReadFile", {"startLine": 4, "endLine": 4}, "4"),
        ("read_file", {"end_line": 2}, "1 2"),
        ("read_file", {"should_read_entire_file": False, "start_line_one_indexed": 5}, "5"),
        (
            "read_file",
            {"should_read_entire_file": True, "start_line_one_indexed": 3, "end_line_one_indexed_inclusive": 3},
            "1 2 3 4 5",
        ),
        ("open_file", {"line_number": 4}, "4 5"),
        ("readTool", {}, "1 2 3 4 5"),
    ],
)
async def test_a_range_of_lines_is_understood_in_every_spelling(files, tool, arguments, lines):
    files.put("a.txt", "1\n2\n3\n4\n5\n")
    rows = (await call(files, tool, filePath="a.txt", **arguments)).splitlines()
    assert [row.partition("|")[2] for row in rows if "|" in row] == lines.split()


@pytest.mark.parametrize("first", [4, -1])
async def test_a_range_that_ends_before_it_begins_is_refused(files, first):
    files.put("a.txt", "1\n2\n3\n4\n5\n")
    with pytest.raises(ToolInputInvalid, match="the last line, 3, is before the first"):
        await call(files, "read_file", path="a.txt", start_line=first, end_line=3)


async def test_list_dir_leaves_out_what_is_ignored(files):
    files.put("a.svg", "")
    files.put("a.py", "")
    assert "a.svg" not in await call(files, "LS", path=".", ignore=["*.svg"])


def test_none_of_it_is_in_what_a_model_is_told():
    assert set(build_offered_schema(TOOLS["read_file"])["properties"]) == {"target_file", "offset", "limit"}
    property_names = set(build_offered_schema(TOOLS["grep"])["properties"])
    assert property_names == {"pattern", "path", "case_sensitive", "include_pattern", "exclude_pattern", "context"}
