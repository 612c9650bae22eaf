from __future__ import annotations

import io
import stat
import subprocess

import pytest

from core.shell.own_programs import offer_programs
from core.shell.patch_program import main

PATCH = """*** Begin Patch
*** Update File: a.py
@@ def f(x):
-    return x + 1
+    return x + 2
*** Add File: new/b.py
+import a
*** Delete File: old.txt
*** Update File: c.txt
*** Move to: d.txt
@@
-one
+two
*** End Patch
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.py").write_bytes(b"def f(x):\r\n    return x + 1\r\n")
    (tmp_path / "a.py").chmod(0o755)
    (tmp_path / "old.txt").write_text("old\n")
    (tmp_path / "c.txt").write_text("one\n")
    return tmp_path


def test_a_patch_is_applied_as_a_whole_and_each_file_is_named(project, capsys):
    assert main([PATCH]) == 0
    assert capsys.readouterr().out.splitlines() == ["M a.py", "A new/b.py", "D old.txt", "D c.txt", "A d.txt"]
    assert (project / "a.py").read_bytes() == b"def f(x):\r\n    return x + 2\r\n"
    assert stat.S_IMODE((project / "a.py").stat().st_mode) == 0o755
    assert (project / "new" / "b.py").read_text() == "import a\n"
    assert (project / "d.txt").read_text() == "two\n"
    assert sorted(path.name for path in project.iterdir()) == ["a.py", "d.txt", "new"]


def test_nothing_is_changed_if_one_part_does_not_fit(project, capsys):
    assert main([PATCH.replace("-one", "-three")]) == 1
    assert "File 4 of 4, c.txt" in capsys.readouterr().err
    assert (project / "a.py").read_bytes() == b"def f(x):\r\n    return x + 1\r\n"
    assert sorted(path.name for path in project.iterdir()) == ["a.py", "c.txt", "old.txt"]


def test_what_was_written_is_restored_if_a_later_file_can_not_be(project, monkeypatch, capsys):
    (project / "new").write_text("a file where a directory would be\n")
    assert main([PATCH]) == 1
    assert capsys.readouterr().err.startswith("apply_patch: ")
    assert (project / "a.py").read_bytes() == b"def f(x):\r\n    return x + 1\r\n"
    assert sorted(path.name for path in project.iterdir()) == ["a.py", "c.txt", "new", "old.txt"]


@pytest.mark.parametrize("how", ["input", "file", "unified"])
def test_a_patch_comes_by_a_pipe_a_file_or_as_a_unified_diff(project, monkeypatch, how):
    text = PATCH
    if how == "unified":
        text = "--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n def f(x):\n-    return x + 1\n+    return x + 2\n"
    (project / "x.patch").write_text(text)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert main({"input": [], "file": ["x.patch"], "unified": ["-p1"]}[how]) == 0
    assert (project / "a.py").read_bytes() == b"def f(x):\r\n    return x + 2\r\n"


@pytest.mark.parametrize(("words", "code"), [(["--help"], 0), (["a", "b"], 2)])
def test_its_usage_is_told(words, code, capsys):
    assert main(words) == code
    assert capsys.readouterr().err.startswith("usage: apply_patch")


def test_commands_find_it_on_their_path_and_need_nothing_else(project, tmp_path_factory):
    directory = tmp_path_factory.mktemp("programs") / "a b"
    readable = offer_programs(directory, [])
    assert readable[0] == directory
    (project / "p").write_text(PATCH)
    environment = {"PATH": f"/usr/bin:/bin:{directory}", "HOME": "/nonexistent"}
    script = "cat p | apply_patch && applypatch < p"
    ended = subprocess.run(
        script, check=False, shell=True, env=environment, cwd=project, capture_output=True, text=True
    )
    assert ended.stdout.startswith("M a.py\n")
    assert ended.returncode == 1
    assert "Nearest: " in ended.stderr  # a failure needs more packages than a success
