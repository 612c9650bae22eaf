from __future__ import annotations

import json

import pytest

from core.notebooks.editing import create_notebook, delete_cell, insert_cell, replace_source
from core.notebooks.notebook import parse_notebook
from tests.support.notebook_files import STYLES, build_styles, validate

NAMES = ("nbformat_4", "nbformat_4_5", "seaborn")


def read(data: bytes):
    return parse_notebook("n.ipynb", data)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("name", NAMES)
def test_another_source_changes_nothing_but_the_cell_it_is_of(name, style):
    data = build_styles(name)[style]
    notebook = read(data)
    for cell in notebook.cells:
        source = f"{cell.source}\nx = '\u00e9\u20ac\U0001f600'\t\"\\\\\""
        after = replace_source(notebook, cell, source)
        known, new_document = validate(data), validate(after)
        assert "".join(new_document["cells"][cell.index]["source"]) == source
        expected_cell = {**known["cells"][cell.index], "source": new_document["cells"][cell.index]["source"]}
        expected_cell |= {"outputs": [], "execution_count": None} if cell.kind == "code" else {}
        assert new_document["cells"][cell.index] == expected_cell
        assert new_document["cells"][: cell.index] == known["cells"][: cell.index]
        bom = len(data) - len(notebook.text.encode())
        begin = len(notebook.text[: cell.start].encode()) + bom
        assert after[:begin] == data[:begin], "what stands before the cell"
        rest = notebook.text[cell.end :].encode()
        assert after.endswith(rest), "what stands behind it"


def test_the_lines_that_stay_are_not_written_anew():
    written = b'{"cells": [\n {"cell_type": "raw", "metadata": {}, "source": [\n  "a\\u0041\\/\\n",\n  "b"\n ]}\n],\n'
    data = written + b'"metadata": {}, "nbformat": 4, "nbformat_minor": 2}'
    notebook = read(data)
    after = replace_source(notebook, notebook.cells[0], "aA/\nc")
    assert after == data.replace(b'  "b"', b'  "c"')


@pytest.mark.parametrize(
    ("style", "line"),
    [
        ("as found", b'    "x = 1\\n",'),
        ("indent 2", b'        "x = 1\\n",'),
        ("indent 4", b'                "x = 1\\n",'),
        ("tabs", b'\t\t\t\t"x = 1\\n",'),
        ("crlf", b'    "x = 1\\n",\r'),
        ("text sources", b'   "source": "x = 1\\ny = 2"'),
        ("one line", b'"source":["x = 1\\n","y = 2"]'),
    ],
)
def test_a_source_is_written_as_the_file_writes_them(style, line):
    notebook = read(build_styles("nbformat_4_5")[style])
    empty = replace_source(notebook, notebook.cells[0], "")
    assert validate(empty)["cells"][0]["source"] in ([], "")
    for data in (empty, notebook.encode(notebook.text)):
        again = read(data)
        new_data = replace_source(again, again.cells[0], "x = 1\ny = 2")
        assert line in (
            new_data.split(b"\n") if style != "one line" else [new_data[new_data.index(b'"source"') :][: len(line)]]
        )


def test_characters_are_escaped_where_the_file_escapes_them():
    results = {}
    for style in ("as found", "ascii"):
        notebook = read(build_styles("nbformat_4_5")[style])
        results[style] = replace_source(notebook, notebook.cells[0], "Größe")
    assert "Größe".encode() in results["as found"]
    assert b"Gr\\u00f6\\u00dfe" in results["ascii"]
    assert results["ascii"].isascii()


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["code", "markdown", "raw"])
def test_a_new_cell_is_the_only_difference_and_taken_out_again_nothing_is_left_of_it(name, style, kind):
    data = build_styles(name)[style]
    count = len(read(data).cells)
    for place in (0, 1, count):
        after = insert_cell(read(data), place, kind, "one\ntwo", {})
        new_cells = validate(after)["cells"]
        assert "".join(new_cells[place]["source"]) == "one\ntwo"
        assert new_cells[:place] + new_cells[place + 1 :] == validate(data)["cells"]
        notebook = read(after)
        assert delete_cell(notebook, notebook.cells[place]) == data


def test_a_new_cell_is_written_like_its_neighbours():
    data = build_styles("nbformat_4_5")["as found"]
    after = insert_cell(read(data), 3, "code", "x", {})
    new_cell = validate(after)["cells"][3]
    like = next(cell for cell in json.loads(data)["cells"] if cell["cell_type"] == "code")
    assert list(new_cell) == list(like)
    assert len({cell.id for cell in read(after).cells}) == len(read(after).cells)


def test_a_notebook_of_before_ids_gets_none():
    data = build_styles("nbformat_4")["as found"]
    assert "id" not in validate(insert_cell(read(data), 0, "code", "x", {}))["cells"][0]


@pytest.mark.parametrize("style", STYLES)
def test_all_cells_can_go_and_others_come(style):
    data = build_styles("seaborn")[style]
    while (notebook := read(data)).cells:
        data = delete_cell(notebook, notebook.cells[-1])
        assert len(validate(data)["cells"]) == len(notebook.cells) - 1
    after = insert_cell(read(data), 0, "code", "x = 1", {})
    assert [cell.source for cell in read(after).cells] == ["x = 1"]
    validate(after)


@pytest.mark.parametrize("language", ["python", "r"])
def test_a_notebook_that_is_made_is_valid_and_of_its_language(language):
    data = create_notebook(language)
    assert read(data).language == language
    assert validate(insert_cell(read(data), 0, "markdown", "# Hello", {}))["cells"][0]["source"] == ["# Hello"]
