from __future__ import annotations

import pytest

from core.edits.errors import EditError
from core.errors import PathRefused, ToolFailed, ToolInputInvalid
from core.tools.builtin.editing.search_replace import SearchReplaceTool
from core.tools.builtin.editing.write import DeleteFile, WriteTool


async def replace(files, path: str, old: str, new: str, **arguments):
    return await SearchReplaceTool(file_path=path, old_string=old, new_string=new, **arguments).run(files)


async def test_an_edit_is_pending_and_shows_its_surroundings(files):
    files.put("a.py", "one\ntwo\nthree\n")
    outcome = await replace(files, "a.py", "two", "2\n2b")
    assert files.now("a.py") == b"one\n2\n2b\nthree\n"
    assert (files.folder / "a.py").read_bytes() == b"one\ntwo\nthree\n"
    assert outcome.content == "Edited a.py: 1 place replaced.\n     1|one\n     2|2\n     3|2b\n     4|three"
    assert outcome.summary == "+2 -1"


async def test_the_answer_says_when_the_match_was_not_exact(files):
    files.put("a.py", "def f():\n\treturn 1\n")
    outcome = await replace(files, "a.py", "def f():\n    return 1", "def f():\n    return 2")
    assert files.now("a.py") == b"def f():\n\treturn 2\n"
    assert "different indentation" in outcome.content


async def test_p8_p9_every_untouched_byte_survives(files):
    before = b"\xef\xbb\xbfone\r\ntwo\r\nmixed\n\xff\xfe bad\r\nlast"
    files.put("a.txt", before)
    await replace(files, "a.txt", "two", "zwei\ndrei")
    assert files.now("a.txt") == before.replace(b"two\r\n", b"zwei\r\ndrei\r\n")


async def test_p8_utf_16_stays_utf_16(files):
    files.put("a.txt", "a\nb\n".encode("utf-16"))
    await replace(files, "a.txt", "b", "ü")
    assert files.now("a.txt") == "a\nü\n".encode("utf-16")


async def test_text_that_is_not_there_leaves_the_file_and_names_the_nearest_place(files):
    files.put("a.py", "x = 1\nvalue = compute(first, second)\ny = 2\n")
    with pytest.raises(EditError) as caught:
        await replace(files, "a.py", "value = compute(first, third)", "pass")
    assert "lines 2-2" in caught.value.message
    assert "+value = compute(first, second)" in caught.value.message
    assert files.pending_paths() == {}


async def test_an_ambiguous_text_names_its_lines(files):
    files.put("a.py", "x\ny\nx\n")
    with pytest.raises(EditError, match="lines 1, 3"):
        await replace(files, "a.py", "x", "z")
    await replace(files, "a.py", "x", "z", replace_all=True)
    assert files.now("a.py") == b"z\ny\nz\n"


async def test_an_empty_old_string_creates_a_missing_file_only(files):
    outcome = await replace(files, "new/a.py", "", "x\n")
    assert files.now("new/a.py") == b"x\n"
    assert outcome.content == "Created new/a.py: 1 line."
    with pytest.raises(ToolInputInvalid, match="old_string is empty"):
        await replace(files, "new/a.py", "", "y\n")


async def test_p13_a_binary_file_is_never_rewritten(files):
    files.put("a.bin", b"\0\1\2")
    with pytest.raises(ToolFailed, match="binary data, 3 bytes"):
        await replace(files, "a.bin", "\1", "x")
    files.mark_read("a.bin")
    with pytest.raises(ToolFailed, match="binary data"):
        await WriteTool(file_path="a.bin", contents="x").run(files)


async def test_p1_nothing_is_written_outside(files):
    for path in ("../x", "/tmp/x"):
        with pytest.raises(PathRefused):
            await replace(files, path, "", "x")
        with pytest.raises(PathRefused):
            await WriteTool(file_path=path, contents="x").run(files)
        with pytest.raises(PathRefused):
            await DeleteFile(target_file=path).run(files)


async def test_a_file_that_was_not_read_is_not_overwritten(files):
    files.put("a.txt", "old\n")
    with pytest.raises(ToolInputInvalid, match="not read its current content"):
        await WriteTool(file_path="a.txt", contents="new\n").run(files)
    files.mark_read("a.txt")
    files.put("a.txt", "changed meanwhile\n")
    with pytest.raises(ToolInputInvalid, match="not read its current content"):
        await WriteTool(file_path="a.txt", contents="new\n").run(files)
    assert files.now("a.txt") == b"changed meanwhile\n"


async def test_a_rewritten_file_keeps_line_endings_and_mark(files):
    files.put("a.txt", b"\xef\xbb\xbfone\r\ntwo\r\n")
    files.mark_read("a.txt")
    outcome = await WriteTool(file_path="a.txt", contents="one\n2\n").run(files)
    assert files.now("a.txt") == b"\xef\xbb\xbfone\r\n2\r\n"
    assert outcome.summary == "+1 -1"


async def test_the_same_content_is_no_change(files):
    files.put("a.txt", "x\r\n")
    files.mark_read("a.txt")
    assert (await WriteTool(file_path="a.txt", contents="x\n").run(files)).summary == "no change"
    assert files.pending_paths() == {}


async def test_a_deletion_is_pending(files):
    target = files.put("a.txt", "x\ny\n")
    outcome = await DeleteFile(target_file="a.txt").run(files)
    assert files.stat("a.txt") is None
    assert target.exists()
    assert outcome.detail.operation == "delete"


async def test_deleting_what_is_missing_or_a_folder_is_an_error(files):
    files.put("src/main.py", "")
    with pytest.raises(ToolInputInvalid, match="does not exist"):
        await DeleteFile(target_file="src/mian.py").run(files)
    with pytest.raises(ToolInputInvalid, match="is a directory"):
        await DeleteFile(target_file="src").run(files)
