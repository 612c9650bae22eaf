from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from core.arguments import PrintArguments
from core.cli.print_mode.headless import run_print
from tests.support.agent_case import calls, says
from tests.support.configured import configured
from tests.support.story import access

ROOT = Path(__file__).parents[2]
PATCH = """\
*** Begin Patch
*** Update File: shop/a.py
@@
-x = 1
+x = 2
*** Add File: new.py
+y = 1
*** Delete File: old.py
*** Update File: shop/b.py
*** Move to: shop/c.py
@@
 keeps
-two
+TWO
*** End Patch"""
ANSWER = "Like this:\n\n```python shop/d.py\nx = 1\n```\n\n```bash\nmake test\n```\n\n```python\ncheck()\n```\n"


@pytest.fixture(autouse=True)
def nothing_is_piped_in(monkeypatch):
    monkeypatch.setattr("sys.stdin", None)


def run_turn(tmp_path: Path, capsys: pytest.CaptureFixture[str], *steps: Any) -> list[dict[str, Any]]:
    project = tmp_path / "project"
    (project / "shop").mkdir(parents=True)
    files = {"shop/a.py": "x = 1\n", "old.py": "gone\n", "shop/b.py": "keeps\ntwo\n"}
    for name, text in files.items():
        (project / name).write_text(text)
    (project / "shop/b.py").chmod(0o755)
    configured('[commands]\npolicy = "auto"\n')
    arguments = PrintArguments(directory=project, prompt="Do it", output_format="json", accept=("all",))
    run_print(arguments, models=access(list(steps)))
    response = json.loads(capsys.readouterr().out)
    schema = json.loads((ROOT / "docs" / "response.schema.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(response)
    documents: list[dict[str, Any]] = response["documents"]
    return documents


def test_a_failing_check_comes_with_the_names_of_what_failed(tmp_path, capsys):
    project = tmp_path / "project"
    project.mkdir()
    (project / "test_a.py").write_text("def test_total():\n    assert 1 == 2, 'a reason'\n")
    configured('[commands]\npolicy = "auto"\n')
    command = f"{sys.executable} -m pytest -q -p no:cacheprovider"
    for output_format in ("json", "text"):
        arguments = PrintArguments(directory=project, prompt="Test it", output_format=output_format)
        edit = ("write", {"file_path": "b.py", "contents": "x = 1\n"})
        run = ("run_terminal_cmd", {"command": command, "is_background": False})
        run_print(arguments, models=access([calls(edit), calls(run), says("It fails.")]))
        printed = capsys.readouterr()
        if output_format == "json":
            (check,) = json.loads(printed.out)["metadata"]["checks"]
            (line,) = check["excerpt"]
            assert line.startswith("FAILED test_a.py::test_total - ")
        else:
            (row,) = [line for line in printed.err.splitlines() if line.startswith("checked: ")]
            assert "-m pytest -q -p no:cacheprovider · " in row
            assert "\n  FAILED test_a.py::test_total - " in printed.err


def test_each_file_of_a_patch_is_a_document_of_its_own(tmp_path, capsys):
    documents = run_turn(tmp_path, capsys, calls(("apply_patch", {"input": PATCH})), says("Done."))
    edits = [document["metadata"] for document in documents if document["type"] == "file_edit"]
    rows = [
        (edit["operation"], edit["filePath"], edit["renamedFrom"], edit["added"], edit["removed"]) for edit in edits
    ]
    assert rows == [
        ("edit", "shop/a.py", "", 1, 1),
        ("create", "new.py", "", 1, 0),
        ("delete", "old.py", "", 0, 1),
        ("rename", "shop/c.py", "shop/b.py", 1, 1),
    ]
    assert [bool(edit["diff"]) for edit in edits] == [True, False, False, True]
    assert edits[0]["diff"] == {"oldString": "x = 1\n", "newString": "x = 2\n", "startLine": 1, "endLine": 1}
    assert (tmp_path / "project/shop/c.py").stat().st_mode & 0o777 == 0o755
    assert len({edit["toolCallId"] for edit in edits}) == 1
    assert [document["sequence"] for document in documents] == list(range(1, len(documents) + 1))


def test_a_failed_call_has_a_document_of_its_error(tmp_path, capsys):
    read = ("read_file", {"target_file": "shop/none.py"})
    documents = run_turn(tmp_path, capsys, calls(read), says("Not there."))
    call, error, _ = documents
    assert (call["type"], call["metadata"]["result"]["status"]) == ("tool_call", "error")
    assert (error["type"], error["content"]) == ("error", "shop/none.py does not exist.")
    metadata = error["metadata"]
    assert (metadata["errorCode"], metadata["source"]) == ("FILE_NOT_FOUND", "read_file")
    assert metadata["details"]
    assert metadata["toolCallId"] == call["metadata"]["toolCallId"]


def test_commands_and_blocks_say_where_and_what_for(tmp_path, capsys):
    run = ("run_terminal_cmd", {"command": "cd shop && pwd"})
    documents = run_turn(tmp_path, capsys, calls(run, ("run_terminal_cmd", {"command": "pwd"})), says(ANSWER))
    ran = [document["metadata"] for document in documents if document["type"] == "terminal_command"]
    assert ran[1]["workingDirectory"] == str(tmp_path / "project/shop") == ran[1]["output"].strip()
    blocks = [document["metadata"]["purpose"] for document in documents if document["type"] == "code_block"]
    assert blocks == ["new_code", "suggestion", "example"]


@pytest.mark.parametrize(
    "edit",
    [
        ("search_replace", {"file_path": "shop/a.py", "old_string": "nowhere", "new_string": "y"}),
        ("edit_file", {"target_file": "../out.py", "instructions": "add", "code_edit": "y = 1\n"}),
        ("apply_patch", {"input": PATCH.replace("-x = 1", "-nowhere = 1")}),
        ("delete_file", {"target_file": "none.py"}),
    ],
    ids=lambda edit: edit[0],
)
def test_an_edit_that_failed_is_a_call_with_an_error_and_no_edit(tmp_path, capsys, edit):
    documents = run_turn(tmp_path, capsys, calls(edit), says("No."))
    call, error, _ = documents
    assert (call["type"], call["metadata"]["toolName"], call["metadata"]["arguments"]) == ("tool_call", *edit)
    assert call["metadata"]["result"]["status"] == "error"
    assert call["metadata"]["result"]["data"].startswith(error["content"])


def test_a_reference_has_the_lines_where_its_text_is_or_a_doubt(tmp_path, capsys):
    fences = ("1:1:shop/b.py\nkeeps\n", "5:5:shop/b.py\ntwo\n", "1:9:shop/a.py\nother\n", "1:1:shop/none.py\nx\n")
    documents = run_turn(tmp_path, capsys, says("\n".join(f"```{text}```\n" for text in fences)))
    places = [document["metadata"] for document in documents if document["type"] == "code_reference"]
    assert [(place["startLine"], place["endLine"], place["doubt"]) for place in places] == [
        (1, 1, ""),
        (2, 2, ""),
        (1, 9, "the file has 1 line"),
        (1, 1, "there is no such file"),
    ]
