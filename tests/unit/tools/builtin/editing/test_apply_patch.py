"""A patch is applied as a whole or not at all, and the model is told what was put right."""

from __future__ import annotations

import pytest

from core.edits.errors import EditError
from core.tools.builtin.editing.apply_patch import ApplyPatch
from core.tools.builtin.editing.search_replace import EditBlocks, MultiEdit, ReplacementArgument

PATCH = "*** Begin Patch\n*** Update File: {0}\n@@\n-{0}\n+new {0}\n*** End Patch\n"


@pytest.mark.parametrize(
    "patch",
    [
        PATCH.format("a") + PATCH.format("b"),
        f"apply_patch <<'EOF'\n{PATCH.format('a')}EOF\napply_patch <<'EOF'\n{PATCH.format('b')}EOF\n",
        f"First:\n\n```\n{PATCH.format('a')}```\n\nThen:\n\n```diff\n{PATCH.format('b')}```\nDone.",
        "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-a\n+new a\n" + PATCH.format("b"),
    ],
)
async def test_every_patch_of_a_call_is_applied(files, patch):
    files.put("a", "a\n")
    files.put("b", "b\n")
    outcome = await ApplyPatch(input=patch).run(files)
    assert (files.now("a"), files.now("b")) == (b"new a\n", b"new b\n")
    assert outcome.summary == "2 files, +2 -2"


async def test_a_patch_that_leaves_something_over_changes_nothing(files):
    files.put("a", "a\n")
    with pytest.raises(EditError, match=r"line 7: '\+more'"):
        await ApplyPatch(input=f"{PATCH.format('a')}+more\n").run(files)
    assert files.pending_paths() == {}


@pytest.mark.parametrize(
    "patch",
    [
        "diff --git a/a b/a\nold mode 100644\nnew mode 100755\n",
        "@@ -1 +1 @@\n-a\n+b\n",
        "*** Begin Patch\n*** Update File: a\n@@\n-\n*** End Patch",
    ],
)
async def test_a_patch_without_an_effect_is_an_error(files, patch):
    files.put("a", "a\n")
    with pytest.raises(EditError):
        await ApplyPatch(input=patch).run(files)
    assert files.pending_paths() == {}


async def test_what_was_put_right_or_left_out_is_told(files):
    files.put("a", "a\nx\n")
    diff = "diff --git a/a b/a\nold mode 100644\nnew mode 100755\n--- a/a\n+++ b/a\n@@ -1 +1,2 @@\n a\n+f(“b”)\n"
    content = (await ApplyPatch(input=diff + diff).run(files)).content
    assert files.now("a") == b'a\nf("b")\nx\n'
    for words in ("Curly quotes", "file mode was not changed", "Duplicate edits were made once"):
        assert words in content


async def test_a_repeated_block_or_replacement_is_made_once_and_told(files):
    files.put("a", "a\n")
    block = "------- SEARCH\na\n=======\na\nb\n+++++++ REPLACE\n"
    content = (await EditBlocks(file_path="a", diff=block + block).run(files)).content
    assert files.now("a") == b"a\nb\n"
    assert "1 block applied. Duplicate edits were made once." in content
    edit = ReplacementArgument(old_string="b", new_string="b\nc")
    content = (await MultiEdit(file_path="a", edits=(edit, edit)).run(files)).content
    assert files.now("a") == b"a\nb\nc\n"
    assert "1 replacement made. Duplicate edits were made once." in content
