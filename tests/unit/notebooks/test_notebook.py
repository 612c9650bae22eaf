from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.notebooks.json_spans import JsonProblem, scan_items, scan_members, scan_value
from core.notebooks.notebook import NotebookInvalid, find_notebook, find_touched, parse_notebook
from tests.support.notebook_files import STYLES, build_styles, read_notebook

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.text(max_size=4), JSON), st.sampled_from([None, 1, "\t"]), st.booleans())
def test_each_member_stands_where_it_is_said_to(value, indent, is_ascii):
    text = json.dumps(value, indent=indent, ensure_ascii=is_ascii)
    members = scan_members(text, 0)
    assert {key: json.loads(text[member.start : member.end]) for key, member in members.items()} == value
    for key, member in members.items():
        assert json.loads(text[member.key_start :][: len(json.dumps(key, ensure_ascii=is_ascii))]) == key


@given(st.lists(JSON), st.sampled_from([None, 1, "\t"]))
def test_each_item_stands_where_it_is_said_to(value, indent):
    text = json.dumps(value, indent=indent)
    assert [json.loads(text[entry.start : entry.end]) for entry in scan_items(text, 0)] == value


@pytest.mark.parametrize(
    ("text", "at"),
    [('{"a": 1,}', 7), ('{"a" 1}', 5), ('{"a": 1', 7), ("[1]", 0), ('{"a": 1, "a": 2}', 9), ("{1: 2}", 1)],
)
def test_what_is_no_json_object_is_refused_at_its_place(text, at):
    with pytest.raises(JsonProblem) as caught:
        scan_members(text, 0)
    assert caught.value.at == at


def test_nesting_without_end_is_a_problem_and_no_crash():
    with pytest.raises(JsonProblem, match="deep"):
        scan_value("[" * 100_000, 0)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("name", ["nbformat_4", "nbformat_4_5", "seaborn"])
def test_the_cells_are_those_of_the_file_and_stand_on_their_lines(name, style):
    data = build_styles(name)[style]
    known, notebook = json.loads(data.decode("utf-8-sig")), parse_notebook("n.ipynb", data)
    assert [(parsed_cell.kind, parsed_cell.source) for parsed_cell in notebook.cells] == [
        (known_cell["cell_type"], "".join(known_cell["source"])) for known_cell in known["cells"]
    ]
    assert notebook.encode(notebook.text) == data
    lines = data.decode("utf-8-sig").split("\n")
    for cell in notebook.cells:
        assert json.loads(notebook.text[cell.start : cell.end])["cell_type"] == cell.kind
        assert notebook.text[cell.start : cell.end].replace("\r", "") in "\n".join(
            lines[cell.first_line - 1 : cell.last_line]
        ).replace("\r", "")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (read_notebook("nbformat_3"), "nbformat 3"),
        (read_notebook("invalid_source"), "line 3: the source of cell 0 is not text"),
        (read_notebook("nbformat_4_5")[:-900], "is not a valid notebook: line"),
        (b'{"cells": [], "nbformat": 4, \xff}', "byte 29"),
        (b'{"cells": [{"cell_type": "poem"}], "nbformat": 4}', "cell 0 is not a code"),
        (b'{"cells": [1], "nbformat": 4}', "cell 0 is not an object"),
        (b'{"nbformat": 4}', "no “cells”"),
        (b'{"a": 1}', "no nbformat"),
        (b"", "line 1"),
    ],
)
def test_what_is_no_notebook_is_refused_with_the_place(data, said):
    with pytest.raises(NotebookInvalid, match=r"n\.ipynb") as caught:
        parse_notebook("n.ipynb", data)
    assert said in caught.value.message
    assert find_notebook(data) is None


def test_an_older_notebook_is_told_how_it_is_converted():
    with pytest.raises(NotebookInvalid) as caught:
        parse_notebook("n.ipynb", read_notebook("nbformat_3"))
    assert "nbconvert --to notebook --nbformat 4" in caught.value.hint


def test_a_cell_behind_another_does_not_count_as_its_edit():
    spans = [(1, 3), (4, 9), (10, 14)]
    assert find_touched(spans, 6, 1) == range(1, 2)
    assert find_touched(spans, 9, 5) == range(2, 3)
    assert find_touched(spans, 9, 1) == range(1, 2)
    assert find_touched(spans, 2, 9) == range(3)
    assert not find_touched(spans, 4, 0)
