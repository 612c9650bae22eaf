from __future__ import annotations

import os

import pytest

from core.index.file_rows import GONE, UNSURE, decode_source, read_rows
from core.index.walk import FoundFile


def read(tmp_path, path="a.py", *, changed=5, size=5):
    top = os.open(tmp_path, os.O_RDONLY)
    try:
        return read_rows(top, FoundFile(path, changed, size, 0))
    finally:
        os.close(top)


def test_a_file_is_its_chunks_its_symbols_and_their_words(tmp_path):
    (tmp_path / "a.py").write_text("@wraps\ndef parse_header(line):\n    return line\n")
    rows = read(tmp_path)
    (chunk,) = rows.chunks
    assert (chunk.start, chunk.end, chunk.symbol, chunk.defines) == (1, 3, "parse_header", "parse_header")
    assert "parse_header" in chunk.body_words.split()
    assert [(each.name, each.start, each.end, each.signature) for each in rows.symbols] == [
        ("parse_header", 1, 3, "def parse_header(line):")
    ]
    assert (rows.language, rows.path_words) == ("python", "a py")


def test_a_file_that_was_just_written_is_looked_at_again(tmp_path):
    (tmp_path / "a.py").write_text("x = 1\n")
    assert read(tmp_path).changed == UNSURE


@pytest.mark.parametrize("data", [b"\x7fELF\0\0", b"a" * 9_000 + b"\0", b"var a=" + b"1+" * 20_000])
def test_a_binary_or_a_bundle_has_no_chunks(tmp_path, data):
    (tmp_path / "a.js").write_bytes(data)
    rows = read(tmp_path, "a.js")
    assert (rows.hash, rows.chunks, rows.size) == (b"", [], len(data))


def test_what_is_no_utf_8_is_still_read():
    assert decode_source(b"\xef\xbb\xbfcaf\xe9\n") == "caf\ufffd\n"


def test_a_file_that_is_gone_is_told_from_one_that_cannot_be_read(tmp_path):
    (tmp_path / "link.py").symlink_to("elsewhere.py")
    os.mkfifo(tmp_path / "pipe.py")
    assert read(tmp_path, "none.py").changed == GONE
    assert read(tmp_path, "link.py").changed == UNSURE
    assert read(tmp_path, "pipe.py").chunks == []


def test_a_file_that_its_grammar_fails_on_is_known_by_its_name(tmp_path, monkeypatch):
    (tmp_path / "a.py").write_text("x = 1\n")
    monkeypatch.setattr("core.index.chunks.find_symbols", lambda path, text: 1 // 0)
    rows = read(tmp_path)
    assert (rows.path, rows.changed, rows.chunks) == ("a.py", UNSURE, [])


def test_a_file_that_has_grown_since_it_was_found_is_not_read(tmp_path):
    (tmp_path / "a.py").write_text("x = 1\n" * 400_000)
    assert (read(tmp_path).changed, read(tmp_path).chunks) == (UNSURE, [])
