from __future__ import annotations

import base64
import json

import pytest

from core.protocol.review import Hunk
from core.shadow.content.contents import describe_undisplayed
from core.shadow.diff.diff_lines import MAX_LINES

LONG = b's = "' + b"a" * 2_990 + b'"; import os\n'
ABOUT = "3,007 characters, of which 1,007 are not shown"


@pytest.mark.parametrize(
    "path",
    [
        "a.py",
        "run.sh",
        "src/a.ts",
        "a.yaml",
        "Makefile",
        "a.toml",
        "index.html",
        "go.mod",
        "requirements-dev.txt",
        "Justfile",
    ],
)
def test_n23_a_line_of_code_of_which_the_end_is_not_shown_is_protected(path):
    assert describe_undisplayed(path, b"k = 1\n", b"k = 1\n" + LONG, ()) == f"holds a line of {ABOUT}"
    assert describe_undisplayed(path, LONG, LONG + b"k = 1\n", ()) == ""
    assert describe_undisplayed(path, LONG, LONG * 3, ()) == f"holds 2 long lines, the longest of {ABOUT}"
    assert describe_undisplayed(path, LONG, b"", ()) == ""


def test_n23_a_long_line_of_a_script_without_an_ending_is_protected():
    assert "not shown" in describe_undisplayed("bin/run", b"", b"#!/bin/sh\necho" + b" " * 3_000 + b"; evil\n", ())
    assert "not shown" in describe_undisplayed("a.py", b"", ("\ufeff" + LONG.decode()).encode("utf-16-le"), ())


@pytest.mark.parametrize(
    "path",
    ["a.min.js", "a.min.css", "pnpm-lock.yaml", "uv.lock", "a.svg", "data.json", "README.md", "words.txt", "a.csv"],
)
def test_n23_long_lines_of_what_nobody_reads_line_by_line_are_ordinary(path):
    assert describe_undisplayed(path, b"", LONG, ()) == ""


def make_notebook(source: str, output: str = "") -> bytes:
    outputs = [{"output_type": "display_data", "metadata": {}, "data": {"image/png": output}}] if output else []
    cell = {"cell_type": "code", "id": "a", "metadata": {}, "execution_count": None, "outputs": outputs}
    book = {"cells": [{**cell, "source": [source]}], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(book, indent=1).encode()


def test_n23_long_code_of_a_notebook_is_protected_and_its_pictures_are_not():
    assert "not shown" in describe_undisplayed("a.ipynb", make_notebook("k = 1"), make_notebook(LONG.decode()), ())
    picture = base64.b64encode(bytes(9_000)).decode()
    assert describe_undisplayed("a.ipynb", make_notebook("k = 1"), make_notebook("k = 2", picture), ()) == ""


@pytest.mark.parametrize("path", ["a.py", "a.sh", "a.js", "bin/run"])
def test_n23_code_with_a_nul_byte_is_protected(path):
    code = b"#!/bin/sh\n#\0\ntouch x\n"
    assert describe_undisplayed(path, b"#!/bin/sh\n", code, ()) == "holds a NUL byte, so its text is not shown"
    again = describe_undisplayed(path, code, b"#!/bin/sh\nrm x\n", ())
    assert again == "held a NUL byte before, so its text is not shown"
    assert describe_undisplayed(path, code, b"", ()) == ""


def test_n23_a_binary_file_is_ordinary_where_binary_files_are():
    assert describe_undisplayed("logo.png", b"", b"\x89PNG\0\0", ()) == ""
    assert describe_undisplayed("a.out", b"", b"\x7fELF\0\0", ()) == ""


def test_n23_more_lines_of_code_than_are_shown_are_protected():
    whole = Hunk(id="a", old_start=1, old_lines=0, new_start=1, new_lines=MAX_LINES)
    assert describe_undisplayed("a.py", b"", b"x\n", (whole,)) == "has more lines than the 200,000 that are shown"
    assert describe_undisplayed("a.csv", b"", b"x\n", (whole,)) == ""
