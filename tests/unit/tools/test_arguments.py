"""The arguments of a call are checked before anything runs."""

from __future__ import annotations

import json

import pytest

from core.errors import ToolInputInvalid
from core.tools.arguments import convert_arguments
from core.tools.builtin.editing.search_replace import SearchReplaceTool
from core.tools.builtin.editing.write import WriteTool
from core.tools.builtin.reading.glob_file_search import GlobFileSearch
from core.tools.builtin.reading.grep import Grep
from core.tools.builtin.reading.list_dir import ListDir
from core.tools.builtin.reading.read_file import ReadFile


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        (Grep, {"pattern": "a\0b"}),
        (Grep, {"pattern": "a", "include_pattern": "*\0"}),
        (GlobFileSearch, {"glob_pattern": "\0"}),
        (ReadFile, {"target_file": "a\0.py"}),
        (ListDir, {"relative_workspace_path": ".", "ignore_globs": ["a", "b\0"]}),
        (WriteTool, {"file_path": "a\0", "contents": ""}),
    ],
)
def test_a_nul_in_a_path_or_pattern_is_an_error_of_the_call(tool, arguments):
    with pytest.raises(ToolInputInvalid, match="holds a NUL character"):
        convert_arguments(tool, json.dumps(arguments))


def test_a_nul_in_content_is_content():
    assert convert_arguments(WriteTool, json.dumps({"file_path": "a", "contents": "\0"})).contents == "\0"
    edit = {"file_path": "a", "old_string": "\0", "new_string": "b"}
    assert convert_arguments(SearchReplaceTool, json.dumps(edit)).old_string == "\0"
