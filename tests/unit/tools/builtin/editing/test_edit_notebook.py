from __future__ import annotations

import json

import pytest

from core.edits.errors import EditError
from core.errors import ToolInputInvalid
from core.notebooks.notebook import Notebook, NotebookInvalid, parse_notebook
from core.tools.arguments import convert_arguments
from core.tools.builtin.editing.edit_notebook import EditNotebook
from core.tools.builtin.reading.read_file import ReadFile
from core.tools.toolset import Toolset
from tests.support.notebook_files import read_notebook, validate

TEXT_EDITS = {
    "write": {"file_path": "n.ipynb", "contents": "{}"},
    "search_replace": {"file_path": "n.ipynb", "old_string": "a", "new_string": "b"},
    "multi_edit": {"file_path": "n.ipynb", "edits": [{"old_string": "a", "new_string": "b"}]},
    "edit_blocks": {"file_path": "n.ipynb", "diff": "------- SEARCH\na\n=======\nb\n+++++++ REPLACE\n"},
    "apply_patch": {"input": "*** Begin Patch\n*** Update File: n.ipynb\n-a\n+b\n*** End Patch"},
    "edit_file": {"target_file": "n.ipynb", "instructions": "b", "code_edit": "b\n"},
    "file_edit": {"path": "n.ipynb", "draft": "b\n"},
}
CREATING = {
    "write": TEXT_EDITS["write"],
    "search_replace": {**TEXT_EDITS["search_replace"], "old_string": ""},
    "multi_edit": {"file_path": "n.ipynb", "edits": [{"old_string": "", "new_string": "b"}]},
    "edit_blocks": {"file_path": "n.ipynb", "diff": "------- SEARCH\n=======\nb\n+++++++ REPLACE\n"},
    "apply_patch": {"input": "*** Begin Patch\n*** Add File: n.ipynb\n+b\n*** End Patch"},
    "edit_file": TEXT_EDITS["edit_file"],
    "file_edit": TEXT_EDITS["file_edit"],
}


@pytest.fixture
def notebook(files):
    files.put("n.ipynb", read_notebook("nbformat_4_5"))
    return files


async def edit(files, **arguments):
    return await EditNotebook(target_notebook="n.ipynb", **arguments).run(files)


def read(files) -> Notebook:
    validate(files.now("n.ipynb"))
    return parse_notebook("n.ipynb", files.now("n.ipynb"))


async def test_one_place_of_a_cell_is_replaced_and_its_outputs_go(notebook):
    before = read(notebook)
    cell = next(notebook_cell for notebook_cell in before.cells if notebook_cell.outputs)
    line = cell.source.split("\n")[0]
    outcome = await edit(notebook, cell_idx=cell.index, old_string=line, new_string="other()")
    after = read(notebook).cells
    assert after[cell.index].source == cell.source.replace(line, "other()", 1)
    assert not after[cell.index].outputs
    assert "1 place replaced" in outcome.content
    assert "Its outputs were cleared" in outcome.content
    assert "other()" in outcome.content.split("\n")
    assert [notebook_cell.source for notebook_cell in after if notebook_cell.index != cell.index] == [
        notebook_cell.source for notebook_cell in before.cells if notebook_cell.index != cell.index
    ]
    assert (notebook.folder / "n.ipynb").read_bytes() == read_notebook("nbformat_4_5")


async def test_what_stands_in_another_cell_is_said(notebook):
    other = read(notebook).cells[1].source.split("\n")[0]
    with pytest.raises(EditError, match="Cell 0") as caught:
        await edit(notebook, cell_idx=0, old_string=other, new_string="x")
    assert "It is in cell 1" in caught.value.hint
    assert notebook.now("n.ipynb") == read_notebook("nbformat_4_5")


async def test_a_new_cell_gets_its_number_and_stands_behind_an_id(notebook):
    ids = [cell.id for cell in read(notebook).cells]
    await edit(notebook, is_new_cell=True, cell_idx=2, cell_language="markdown", new_string="# At 2")
    await edit(notebook, is_new_cell=True, cell_idx=-1, cell_language="python", new_string="last = 1")
    await edit(notebook, edit_mode="insert", cell_id=ids[0], new_string="behind")
    await edit(notebook, edit_mode="insert", new_string="top")
    sources = [cell.source for cell in read(notebook).cells]
    assert (sources[0], sources[2], sources[4], sources[-1]) == ("top", "behind", "# At 2", "last = 1")


async def test_other_languages_are_noted_where_editors_look_for_them(notebook):
    await edit(notebook, is_new_cell=True, cell_idx=0, cell_language="sql", new_string="select 1")
    cell = read(notebook).cells[0]
    assert (cell.kind, cell.metadata) == ("code", {"vscode": {"languageId": "sql"}})


async def test_a_whole_cell_is_replaced_or_taken_out_only_when_it_was_read(notebook):
    for arguments in ({"edit_mode": "replace", "new_string": "x"}, {"edit_mode": "delete"}):
        with pytest.raises(ToolInputInvalid, match="has changed since you read it"):
            await edit(notebook, cell_idx=1, **arguments)
    await ReadFile(target_file="n.ipynb").run(notebook)
    await edit(notebook, cell_idx=1, edit_mode="replace", new_string="x")
    assert read(notebook).cells[1].source == "x"
    count = len(read(notebook).cells)
    source = read(notebook).cells[2].source
    await edit(notebook, cell_id=read(notebook).cells[1].id, edit_mode="delete")
    assert (len(read(notebook).cells), read(notebook).cells[1].source) == (count - 1, source)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"cell_idx": 99, "old_string": "a"}, "There is no cell 99: n.ipynb has 9 cells"),
        ({"cell_idx": 99, "is_new_cell": True}, "so a cell can't be put at 99"),
        ({"cell_id": "nothing-like-it", "old_string": "a"}, "no cell with the id 'nothing-like-it'"),
        ({"old_string": "a"}, "No cell is given"),
        ({"cell_idx": 0, "new_string": "b"}, "old_string is empty"),
        ({"cell_idx": 0, "cell_language": "python", "old_string": "a"}, "Cell 0 is a markdown cell"),
    ],
)
async def test_a_call_that_names_nothing_is_told_what_there_is(notebook, arguments, said):
    with pytest.raises(ToolInputInvalid) as caught:
        await edit(notebook, **arguments)
    assert said in caught.value.message
    assert caught.value.hint
    assert notebook.now("n.ipynb") == read_notebook("nbformat_4_5")


async def test_an_id_that_is_nearly_right_gets_the_right_one_named(notebook):
    known = read(notebook).cells[3].id
    with pytest.raises(ToolInputInvalid) as caught:
        await edit(notebook, cell_id=known[:-1] + "x", old_string="a")
    assert f"{known} (cell 3)" in caught.value.hint


async def test_a_notebook_that_is_not_there_is_made_with_its_first_cell(files):
    await edit(files, is_new_cell=True, cell_idx=0, cell_language="python", new_string="x = 1")
    assert [(cell.kind, cell.source) for cell in read(files).cells] == [("code", "x = 1")]
    with pytest.raises(ToolInputInvalid, match="does not exist"):
        await EditNotebook(target_notebook="other.ipynb", cell_idx=0, old_string="a").run(files)


async def test_an_invalid_notebook_is_refused_and_left_as_it_is(files):
    files.put("n.ipynb", read_notebook("invalid_source"))
    with pytest.raises(NotebookInvalid, match="line 3"):
        await edit(files, cell_idx=0, old_string="a", new_string="b")
    assert files.now("n.ipynb") == read_notebook("invalid_source")


async def test_what_no_longer_parses_is_said_and_magics_are_no_fault(notebook):
    await edit(notebook, is_new_cell=True, cell_idx=0, new_string="%matplotlib inline\n!ls\nx = 1\nx?")
    fine = await edit(notebook, cell_idx=0, old_string="x = 1", new_string="x = 2")
    assert "rror" not in fine.content
    broken = await edit(notebook, cell_idx=0, old_string="x = 2", new_string="x = (2")
    assert broken.content.split("\n")[-1] == "  line 3: this does not parse"


@pytest.mark.parametrize("tool", sorted(TEXT_EDITS))
@pytest.mark.parametrize("is_there", [True, False])
async def test_text_tools_leave_notebooks_alone_and_name_the_tool(files, tool, is_there):
    if is_there:
        files.put("n.ipynb", read_notebook("nbformat_4_5"))
    arguments = (TEXT_EDITS if is_there else CREATING)[tool]
    call = convert_arguments(Toolset()[tool], json.dumps(arguments))
    with pytest.raises(ToolInputInvalid, match="is a notebook") as caught:
        await call.run(files)
    assert "edit_notebook" in caught.value.hint
    assert files.stat("n.ipynb") is None or files.now("n.ipynb") == read_notebook("nbformat_4_5")


@pytest.mark.parametrize(
    "arguments",
    [
        '{"notebook_path": "n.ipynb", "cell_id": "cell-0", "new_source": "x", "cell_type": "markdown", '
        '"edit_mode": "replace"}',
        '{"notebook_path": "n.ipynb", "cell_id": "cell-0", "new_source": "x"}',
        '{"notebook_path": "n.ipynb", "new_source": "x", "cell_type": "markdown", "edit_mode": "insert"}',
        '{"target_notebook": "n.ipynb", "cell_idx": 0, "is_new_cell": false, "cell_language": "markdown", '
        '"old_string": "nbconvert latex test", "new_string": "x"}',
    ],
)
async def test_the_arguments_of_other_agents_are_understood(notebook, arguments):
    await convert_arguments(Toolset()["edit_notebook"], arguments).run(notebook)
    assert read(notebook).cells[0].source in {"x", "# x"}


async def test_the_whole_text_of_a_cell_stands_beside_no_part_of_it(notebook):
    call = '{"notebook_path": "n.ipynb", "cell_id": "cell-0", "new_source": "x", "old_string": "nbconvert"}'
    with pytest.raises(ToolInputInvalid, match="new_source is the full text"):
        await convert_arguments(Toolset()["edit_notebook"], call).run(notebook)


async def test_an_id_of_several_cells_names_none_of_them(files):
    data = json.loads(read_notebook("nbformat_4_5"))
    data["cells"][2]["id"] = data["cells"][1]["id"]
    files.put("n.ipynb", json.dumps(data).encode())
    call = {"target_notebook": "n.ipynb", "cell_id": data["cells"][1]["id"], "edit_mode": "delete"}
    with pytest.raises(ToolInputInvalid, match=r"The cells 1, 2 of n\.ipynb have the id") as caught:
        await convert_arguments(Toolset()["edit_notebook"], json.dumps(call)).run(files)
    assert "cell_idx" in caught.value.hint
