"""The encoding that a project gives a file counts for what is read and written there."""

from __future__ import annotations

import pytest

from core.edits.text_file import find_declared_encoding

ROOT = "root = true\n[*]\ncharset = utf-8\n[*.{txt,csv}]\ncharset = latin1\n"


def find(path: str, **files: str) -> str:
    contents = {name.replace("__", "/").replace("_", ".") + ".editorconfig": text for name, text in files.items()}
    data = {name.removeprefix("top"): text.encode() for name, text in contents.items()}
    return find_declared_encoding(path, data.get)


@pytest.mark.parametrize(
    ("text", "path", "encoding"),
    [
        (ROOT, "a.txt", "latin-1"),
        (ROOT, "deep/in/a.csv", "latin-1"),
        (ROOT, "a.py", ""),
        ("[*]\ncharset=latin1\n[*.py]\ncharset = unset\n", "a.py", ""),
        ("[*]\ncharset=latin1\n[*.py]\ncharset = unset\n", "a.c", "latin-1"),
        ("; a remark\n# another\n[ *.txt ]\n", "a.txt", ""),
        ("[src/**]\nCharset : LATIN1\n", "src/deep/a", "latin-1"),
        ("[src/**]\nCharset : LATIN1\n", "other/a", ""),
        ("[file{1..3}.txt]\ncharset = latin1\n", "file2.txt", "latin-1"),
        ("[file{1..3}.txt]\ncharset = latin1\n", "file4.txt", ""),
        ("[*]\ncharset = utf-16le\n", "a", ""),
        ("\ufeff[*]\r\ncharset = latin1\r\n", "a", "latin-1"),
        ("charset = latin1\n", "a", ""),
        ("[\n]\n=\n[*\ncharset", "a", ""),
        ("[{-9999..9999}]\ncharset = latin1\n", "x", ""),
    ],
)
def test_the_last_section_that_fits_decides(text, path, encoding):
    assert find(path, top=text) == encoding


def test_the_nearest_file_wins_and_a_root_ends_the_way():
    assert find("sub/a.txt", top=ROOT, sub__="[*.txt]\ncharset = utf-8\n") == ""
    assert find("sub/a.txt", top=ROOT, sub__="[*.py]\ncharset = utf-8\n") == "latin-1"
    assert find("sub/a.txt", top=ROOT, sub__="root = true\n") == ""
    assert find("sub/deep/a.txt", top=ROOT, sub__="[deep/*]\ncharset = unset\n") == ""


def test_without_a_file_nothing_is_said():
    assert find("a.txt") == ""
