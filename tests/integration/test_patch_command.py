"""A script of the model that calls `apply_patch` among other commands, in the box of this machine."""

from __future__ import annotations

import json

from tests.support.configured import configured
from tests.support.program import ask
from tests.support.provider_streams import Call, Step

SCRIPT = """cd src && ls && apply_patch <<'EOF' && cat a.py
*** Begin Patch
*** Update File: a.py
@@ def f(x):
-    return x + 1
+    return x + 2
*** End Patch
EOF
"""


async def test_a_patch_within_a_script_is_applied_by_a_program_and_comes_to_review(tmp_path):
    configured('[commands]\npolicy = "auto"\n')
    source = tmp_path / "project" / "src" / "a.py"
    source.parent.mkdir(parents=True)
    source.write_text("def f(x):\n    return x + 1\n")
    piped = f"cat <<'EOF' | apply_patch\n{SCRIPT.partition(chr(10))[2].replace('2', '3').replace('+ 1', '+ 2')}"
    steps = [Step(calls=[Call(name="run_terminal_cmd", arguments={"command": text})]) for text in (SCRIPT, piped)]
    arguments = ("--trust", "--output-format", "json")
    ended, requests = await ask(tmp_path / "project", *steps, "Done.", arguments=arguments, seconds=100)
    first, second = [message["content"] for message in requests[-1].json["messages"] if message["role"] == "tool"]
    assert "a.py\nM a.py\ndef f(x):\n    return x + 2" in first
    assert "M a.py" in second
    assert source.read_text().endswith("x + 1\n")
    pending = json.loads(ended.out)["metadata"]["pendingChanges"]
    assert [(change["path"], change["added"], change["removed"]) for change in pending] == [("src/a.py", 1, 1)]
