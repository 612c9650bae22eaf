from __future__ import annotations

import os
import tracemalloc

import pytest

from core.errors import PathRefused, ToolFailed, ToolInputInvalid
from core.tools.builtin.reading.read_file import ReadFile
from tests.support.notebook_files import read_notebook


async def read(files, path: str, **arguments):
    return await ReadFile(target_file=path, **arguments).run(files)


async def test_lines_come_with_their_numbers(files):
    files.put("a.py", "one\ntwo\r\nthree")
    outcome = await read(files, "a.py")
    assert outcome.content == "     1|one\n     2|two\n     3|three"
    assert outcome.summary == "3 lines"


async def test_a_range_says_where_to_go_on(files):
    files.put("a.txt", "".join(f"line {n}\n" for n in range(1, 101)))
    outcome = await read(files, "a.txt", offset=10, limit=2)
    assert outcome.content.splitlines()[:2] == ["    10|line 10", "    11|line 11"]
    assert "offset=12" in outcome.content
    assert outcome.summary == "lines 10-11 of 100"


async def test_a_negative_offset_counts_from_the_end(files):
    files.put("a.txt", "1\n2\n3\n4\n")
    assert (await read(files, "a.txt", offset=-2)).content == "     3|3\n     4|4"


async def test_an_offset_behind_the_end_says_how_long_the_file_is(files):
    files.put("a.txt", "1\n2\n")
    assert "2 lines" in (await read(files, "a.txt", offset=9)).content


async def test_the_default_cap_is_1500_lines(files):
    files.put("a.txt", "x\n" * 4000)
    outcome = await read(files, "a.txt")
    assert outcome.content.count("|x") == 1500
    assert "offset=1501" in outcome.content


async def test_a_file_is_marked_read_only_when_its_end_was_shown(files):
    files.put("a.txt", "x\n" * 2000)
    await read(files, "a.txt")
    assert not files.has_read_current("a.txt")
    await read(files, "a.txt", offset=1501)
    assert files.has_read_current("a.txt")


async def test_an_empty_file_is_said_to_be_empty(files):
    files.put("a.txt", "")
    assert (await read(files, "a.txt")).content == "The file is empty."


async def test_p13_a_binary_file_is_refused_with_type_and_size(files):
    files.put("a.png", b"\x89PNG\r\n\x1a\n" + b"\0" * 100)
    with pytest.raises(ToolFailed, match="PNG image, 108 bytes"):
        await read(files, "a.png")


async def test_a_missing_file_names_near_ones(files):
    files.put("src/config.py", "")
    with pytest.raises(ToolInputInvalid) as caught:
        await read(files, "src/conifg.py")
    assert "src/config.py" in caught.value.hint


async def test_a_directory_is_listed_with_advice(files):
    files.put("src/a.py", "")
    content = (await read(files, "src")).content
    assert content == "[src is a directory; list_dir shows it]\nsrc/\n└── a.py"


async def test_p11_a_pipe_that_nobody_writes_to_is_refused(files):
    os.mkfifo(files.folder / "pipe")
    with pytest.raises(ToolInputInvalid, match="not a regular file"):
        await read(files, "pipe")


async def test_p1_paths_out_of_the_workspace_are_refused(files):
    for path in ("../x", "/etc/passwd", "a/../../x", "a\0b"):
        with pytest.raises(PathRefused):
            await read(files, path)


async def test_p12_a_huge_file_and_a_huge_line_stay_bounded(files):
    with (files.folder / "sparse.txt").open("wb") as sparse:
        sparse.write(b"first\n" + b"x" * 20_000_000 + b"\n")
        sparse.truncate(2_000_000_000)
    tracemalloc.start()
    try:
        outcome = await read(files, "sparse.txt")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 50_000_000
    assert len(outcome.content) < 10_000
    assert "2,000,000,000 bytes" in outcome.content
    assert "line clipped" in outcome.content


async def test_utf_16_is_shown_as_text(files):
    files.put("a.txt", "ä\nb\n".encode("utf-16"))
    assert (await read(files, "a.txt")).content == "     1|ä\n     2|b"


async def test_pending_content_is_what_is_read(files):
    files.put("a.txt", "old\n")
    files.write("a.txt", b"new\n")
    assert (await read(files, "a.txt")).content == "     1|new"


async def test_an_output_that_was_put_aside_can_be_read(files):
    files.put_aside["outputs/call_1.txt"] = b"kept\n"
    assert (await read(files, "outputs/call_1.txt")).content == "     1|kept"


async def test_a_notebook_is_read_as_its_cells_with_short_outputs_and_their_pictures(files):
    files.put("n.ipynb", read_notebook("nbformat_4_5"))
    outcome = await read(files, "n.ipynb")
    lines = [row.partition("|")[2] for row in outcome.content.splitlines()]
    assert lines[0] == "# Notebook with 9 cells, python. Edit it with edit_notebook."
    assert [line.split(" · ")[0] for line in lines if line.startswith("# %% cell")] == [
        f"# %% cell {n}" for n in range(9)
    ]
    assert any(line.startswith("# → stdout") or "image/png" in line for line in lines)
    assert [attachment.attachment.media_type for attachment in outcome.attachments] == ["image/png"]
    assert files.has_read_current("n.ipynb")
    assert max(map(len, lines)) < 2_100, "no picture is read as text"


async def test_a_notebook_that_is_not_valid_is_read_as_text_with_its_fault(files):
    files.put("n.ipynb", read_notebook("invalid_source"))
    outcome = await read(files, "n.ipynb")
    assert outcome.content.startswith("[n.ipynb is not a valid notebook: line 3")
    assert '"cells": [' in outcome.content
