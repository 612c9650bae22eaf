from __future__ import annotations

import json
import os
from bisect import bisect_right

import pytest

from core.index.file_rows import MISSING, UNSETTLED, decode_source, read_rows
from core.index.walk import ProjectFile
from core.notebooks.editing import create_notebook, insert_cell
from core.notebooks.notebook import parse_notebook
from core.notebooks.rendering import find_notebook_text, list_cells
from tests.support.notebook_files import read_notebook


def read(tmp_path, path="a.py", *, changed=5, size=5):
    top = os.open(tmp_path, os.O_RDONLY)
    try:
        return read_rows(top, ProjectFile(path, changed, size, 0))
    finally:
        os.close(top)


def test_a_file_is_its_chunks_its_symbols_and_their_words(tmp_path):
    (tmp_path / "a.py").write_text("@wraps\ndef parse_header(line):\n    return line\n")
    rows = read(tmp_path)
    (chunk,) = rows.chunks
    assert (chunk.start, chunk.end, chunk.symbol, chunk.defines) == (1, 3, "parse_header", "parse_header")
    assert "parse_header" in chunk.body_words.split()
    assert [(symbol.name, symbol.start, symbol.end, symbol.signature) for symbol in rows.symbols] == [
        ("parse_header", 1, 3, "def parse_header(line):")
    ]
    assert (rows.language, rows.path_words) == ("python", "a py")


def test_a_file_that_was_just_written_is_looked_at_again(tmp_path):
    (tmp_path / "a.py").write_text("x = 1\n")
    assert read(tmp_path).changed == UNSETTLED


@pytest.mark.parametrize("data", [b"\x7fELF\0\0", b"a" * 9_000 + b"\0", b"var a=" + b"1+" * 20_000])
def test_a_binary_or_a_bundle_has_no_chunks(tmp_path, data):
    (tmp_path / "a.js").write_bytes(data)
    rows = read(tmp_path, "a.js")
    assert (rows.hash, rows.chunks, rows.size) == (b"", [], len(data))


def test_what_is_no_utf_8_is_still_read():
    assert decode_source("a.txt", b"\xef\xbb\xbfcaf\xe9\n") == "caf\ufffd\n"


def test_a_file_that_is_gone_is_told_from_one_that_cannot_be_read(tmp_path):
    (tmp_path / "link.py").symlink_to("elsewhere.py")
    os.mkfifo(tmp_path / "pipe.py")
    assert read(tmp_path, "none.py").changed == MISSING
    assert read(tmp_path, "link.py").changed == UNSETTLED
    assert read(tmp_path, "pipe.py").chunks == []


def test_a_file_that_its_grammar_fails_on_is_known_by_its_name(tmp_path, monkeypatch):
    (tmp_path / "a.py").write_text("x = 1\n")
    monkeypatch.setattr("core.index.chunks.find_symbols", lambda path, text: 1 // 0)
    rows = read(tmp_path)
    assert (rows.path, rows.changed, rows.chunks) == ("a.py", UNSETTLED, [])


def test_a_file_that_has_grown_since_it_was_found_is_not_read(tmp_path):
    (tmp_path / "a.py").write_text("x = 1\n" * 400_000)
    assert (read(tmp_path).changed, read(tmp_path).chunks) == (UNSETTLED, [])


def test_a_notebook_is_its_cells_by_the_lines_that_are_read_of_it(tmp_path):
    data = read_notebook("course")
    (tmp_path / "course.ipynb").write_bytes(data)
    rows = read(tmp_path, "course.ipynb", size=len(data))
    text = find_notebook_text("course.ipynb", data, has_outputs=False)
    heads = [cell.head for cell in list_cells(text)]
    assert len(heads) == 40
    lines = text.split("\n")
    for chunk in rows.chunks:  # only small cells stand together
        crossed = bisect_right(heads, chunk.end) - bisect_right(heads, chunk.start)
        assert not crossed or len("\n".join(lines[chunk.start - 1 : chunk.end])) <= 800
    assert not {"cell_type", "metadata", "execution_count"} & {w for c in rows.chunks for w in c.body_words.split()}
    assert rows.symbols
    assert all(symbol.name in lines[symbol.start - 1] for symbol in rows.symbols)


def test_what_a_notebook_has_put_out_is_not_in_the_index(tmp_path):
    notebook = parse_notebook("a.ipynb", create_notebook("python"))
    data = insert_cell(notebook, 0, "code", "def spread_butter():\n    return 1\n\nx = (1,", {})
    data = insert_cell(parse_notebook("a.ipynb", data), 1, "code", "class Toast:\n    pass", {})
    put_out = {"output_type": "display_data", "data": {"image/png": "A" * 1_500_000, "text/plain": "marmalade"}}
    document = json.loads(data)
    document["cells"][0]["outputs"] = [put_out]
    data = json.dumps(document).encode()
    (tmp_path / "a.ipynb").write_bytes(data)
    rows = read(tmp_path, "a.ipynb", size=len(data))
    assert [(symbol.name, symbol.start) for symbol in rows.symbols] == [("spread_butter", 3), ("Toast", 10)]
    assert "marmalade" not in "".join(chunk.body_words for chunk in rows.chunks)
