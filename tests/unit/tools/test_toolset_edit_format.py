from __future__ import annotations

import json

import pytest

from core.config.settings import ModelSettings, Settings
from core.edits.errors import EditError
from core.errors import AgentTuiError, ToolFailed, ToolInputInvalid
from core.prompts import load_tool_text
from core.shadow.diff.hunks import compare_texts
from core.tools.base import FileEditDetails
from core.tools.builtin.editing.edit_outcome import format_regions
from core.tools.toolset import OFFERED, Toolset, choose_edit_format, guess_edit_format

TOOLS = Toolset()

PATCH = """\
*** Begin Patch
*** Update File: a.py
@@
-one
+ONE
*** Add File: new.py
+x = 1
*** Delete File: old.py
*** Update File: b.py
*** Move to: moved.py
@@
 keeps
-two
+TWO
*** End Patch"""


async def ran(files, name: str, **arguments):
    return await TOOLS.parse(name, json.dumps(arguments)).run(files)


@pytest.fixture
def four(files):
    files.put("a.py", "one\n")
    files.put("b.py", "keeps\ntwo\n")
    files.put("old.py", "x = 0\n")
    return files


# which format a model is offered


@pytest.mark.parametrize(
    ("wanted", "models"),
    [
        ("str_replace", ["anthropic/claude-sonnet-5-5", "openrouter/anthropic/claude-opus-5"]),
        ("patch", ["openai/gpt-5.2-codex", "openai/o4-mini", "ollama/gpt-oss:20b"]),
        ("search_replace", ["ollama/qwen2.5-coder:7b", "work/olmo-3", "scripted/demo"]),
    ],
)
def test_a_model_is_offered_what_models_of_its_name_are_best_at(wanted, models):
    assert {guess_edit_format(model) for model in models} == {wanted}
    assert {choose_edit_format(model, Settings()) for model in models} == {wanted}


def test_what_is_configured_for_a_model_wins():
    settings = Settings(models={"openai/gpt-5": ModelSettings(edits="lazy"), "openai/o3": ModelSettings()})
    assert [choose_edit_format(f"openai/{name}", settings) for name in ("gpt-5", "o3")] == ["lazy", "patch"]


@pytest.mark.parametrize("edits", list(OFFERED))
def test_one_edit_tool_is_offered_and_found_under_its_name(edits):
    names = [spec.name for spec in TOOLS.build_specs(load_tool_text, edits)]
    offered, own = OFFERED[edits]
    assert {name for name in names if name in {offered_name for offered_name, _ in OFFERED.values()}} == {offered}
    assert len(names) == len(TOOLS.build_specs(load_tool_text))
    assert TOOLS[own].access is TOOLS["write"].access


# what each of them does


async def test_a_patch_over_several_files_is_one_edit(four):
    outcome = await ran(four, "apply_patch", input=PATCH)
    assert {path: four.now(path) for path in ("a.py", "new.py", "moved.py")} == {
        "a.py": b"ONE\n",
        "new.py": b"x = 1\n",
        "moved.py": b"keeps\nTWO\n",
    }
    assert (four.stat("old.py"), four.stat("b.py")) == (None, None)
    assert outcome.summary == "4 files, +3 -3"
    assert "Edited a.py: the patch was applied.\n     1|ONE" in outcome.content
    assert "Edited moved.py: renamed from b.py, and the patch was applied." in outcome.content
    assert isinstance(outcome.detail, FileEditDetails)
    assert [(edit.operation, edit.path, edit.renamed_from, edit.added) for edit in outcome.detail.edits] == [
        ("edit", "a.py", "", 1),
        ("create", "new.py", "", 1),
        ("delete", "old.py", "", 0),
        ("rename", "moved.py", "b.py", 1),
    ]
    assert (outcome.detail.edits[3].diff.old_string, outcome.detail.edits[3].diff.new_string) == ("two\n", "TWO\n")
    assert "Deleted old.py." in outcome.content


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("-two\n", "-three\n", "File 4 of 4, b.py: The text to replace was not found"),
        ("moved.py", "a.py", "a.py exists, so nothing can be moved there"),
        ("*** Add File: new.py", "*** Add File: a.py", "a.py is to be added, but it exists"),
        ("*** Delete File: old.py", "*** Delete File: older.py", "older.py does not exist. Did you mean old.py"),
        ("*** Update File: a.py", "*** Update File: ../a.py", ".."),
        ("*** Add File: new.py", "*** Add File: .git/hooks/pre-commit", ".git"),
    ],
)
async def test_when_one_file_of_a_patch_is_refused_none_is_changed(four, old, new, words):
    with pytest.raises(AgentTuiError) as caught:
        await ran(four, "apply_patch", input=PATCH.replace(old, new))
    assert words in caught.value.format_with_hint()
    assert four.pending_paths() == {}


async def test_a_patch_that_was_made_is_refused_the_second_time(four):
    one = "*** Begin Patch\n*** Update File: b.py\n@@\n keeps\n-two\n+TWO\n*** End Patch"
    await ran(four, "apply_patch", input=one)
    with pytest.raises(EditError, match="not found"):
        await ran(four, "apply_patch", input=one)
    assert four.now("b.py") == b"keeps\nTWO\n"


async def test_several_strings_are_replaced_in_order_or_none(four):
    good, bad = {"old_string": "one", "new_string": "1\n2"}, {"old_string": "zwei", "new_string": "2"}
    with pytest.raises(EditError, match="Edit 2 of 2"):
        await ran(four, "multi_edit", file_path="a.py", edits=[good, bad])
    assert four.pending_paths() == {}
    outcome = await ran(four, "MultiEdit", path="a.py", edits=[good, {"old_string": "2", "new_string": "3"}])
    assert four.now("a.py") == b"1\n3\n"
    assert outcome.content == "Edited a.py: 2 replacements made.\n     1|1\n     2|3"


async def test_the_answer_says_which_parts_did_not_match_exactly(four):
    four.put("c.py", "def f():\n\treturn 1\n\n\ndef g():\n\treturn 2\n")
    edits = [
        {"old_string": "def f():\n    return 1", "new_string": "def f():\n    return 10"},
        {"old_string": "return 2", "new_string": "return 20"},
    ]
    outcome = await ran(four, "multi_edit", file_path="c.py", edits=edits)
    assert "Not all matched exactly (1: different indentation; the new text was indented to fit)." in outcome.content
    patch = "*** Begin Patch\n*** Update File: c.py\n@@\n def g():\n-    return 20\n+    return 30\n*** End Patch"
    outcome = await ran(four, "apply_patch", patch=patch)
    assert "Matched with different indentation" in outcome.content
    assert four.now("c.py") == b"def f():\n\treturn 10\n\n\ndef g():\n\treturn 30\n"


async def test_a_file_is_created_from_new_code_but_never_from_a_marker(files):
    await ran(files, "edit_file", target_file="a.py", instructions="New.", code_edit="x = 1\n")
    assert files.now("a.py") == b"x = 1\n"
    with pytest.raises(ToolInputInvalid, match="does not exist"):
        await ran(files, "edit_file", target_file="b.py", code_edit="# ... existing code ...\nx = 1\n")
    with pytest.raises(ToolInputInvalid, match="changes nothing"):
        await ran(files, "edit_file", target_file="a.py", code_edit="x = 1\n")


async def test_what_rules_can_not_decide_needs_a_model(files):
    files.put("a.py", "def f():\n    return 1\n\n\ndef g():\n    return 1\n")
    with pytest.raises(ToolFailed, match="no model that could work out an edit of"):
        await ran(files, "edit_file", target_file="a.py", code_edit="    return 2\n")
    assert files.pending_paths() == {}


async def test_drafts_replace_a_range_append_and_create(files):
    files.put("a.py", "one\ntwo\nthree\n")
    assert "placed in the range" in (await ran(files, "file_edit", path="a.py", draft="2\n", start=2, end=2)).content
    assert "appended" in (await ran(files, "file_edit", path="a.py", draft="four\n", start=-1, end=-1)).content
    assert files.now("a.py") == b"one\n2\nthree\nfour\n"
    await ran(files, "file_edit", path="b.py", draft="new\n", start=1, end=-1)
    assert files.now("b.py") == b"new\n"
    files.put("long.py", "x = 1\n" * 301)
    with pytest.raises(EditError, match="300 lines"):
        await ran(files, "file_edit", path="long.py", draft="y = 1\n")


async def test_blocks_for_several_files_in_one_call_are_refused(four):
    block = "------- SEARCH\n{}\n=======\nX\n+++++++ REPLACE\n"
    blocks_by_path = {"a.py": block.format("one"), "b.py": block.format("two")}
    both = "".join(f'<file-edit filePath="{path}">\n{text}</file-edit>\n' for path, text in blocks_by_path.items())
    with pytest.raises(ToolInputInvalid, match="are for several files"):
        await ran(four, "editTool", filePath="a.py", diffContent=both)
    assert four.pending_paths() == {}


# what a model is told


async def test_only_what_an_edit_broke_is_told(files):
    files.put("a.py", "def f(:\n    pass\n\n\ndef g():\n    pass\n")
    fine = await ran(files, "str_replace", path="a.py", old_string="def g():\n    pass", new_string="def g():\n    f()")
    assert "syntax" not in fine.content
    broken = await ran(files, "str_replace", path="a.py", old_string="    f()", new_string="    f(")
    assert "New syntax errors:" in broken.content
    files.put("b.py", "x = 1\n")
    broke = await ran(files, "write", file_path="new.json", contents='{"a": 1,,}')
    assert "New syntax errors:\n  line 1" in broke.content
    broke = await ran(files, "str_replace", path="b.py", old_string="x = 1", new_string="x = (1")
    assert "This edit broke the syntax of the file: it parsed before." in broke.content
    assert "syntax" not in (await ran(files, "write", file_path="notes.txt", contents="((")).content


def changed(before: str, after: str) -> list[str]:
    return format_regions(compare_texts(before.encode(), after.encode()), after)


def test_every_changed_place_is_shown_once_with_its_line_numbers():
    before = [f"line {number}" for number in range(1, 41)]
    after = [*before[:4], "new", *before[5:30], *before[31:]]
    rows = changed("\n".join(before), "\n".join(after))
    assert rows[:5] == ["     2|line 2", "     3|line 3", "     4|line 4", "     5|new", "     6|line 6"]
    assert rows[7] == "   ..."
    assert rows[8] == "    28|line 28"
    assert not any("line 31" in row for row in rows)
    assert len(changed("", "x\n" * 1000)) == 41
    assert changed("a\n", "a\n") == []
