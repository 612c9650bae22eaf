"""What `review --print` and `diff` print, git takes: in any encoding, with any line ends, under any name."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commits import git
from tests.support.program import ROOT

FILES = {
    "latin.txt": "äöü one\nzwei\nschön\n".encode("latin-1"),
    "sjis.txt": "日本語のファイル one\nこれはテストです\n".encode("shift-jis"),
    "utf16.txt": "one\ntwo\n".encode("utf-16"),
    "crlf.txt": b"one\r\ntwo\r\nthree\r\n",
    "mixed.txt": b"one\r\ntwo\nthree\n",
    "noeol.txt": b"two\none",
    "sp ace.txt": b"one\n",
    "ümlaut.txt": b"one\n",
    "ta\tb.txt": b"one\n",
    'qu"ote.txt': b"one\n",
    "bin.dat": b"one" + bytes(range(256)),
    "hidden.txt": "one\u202etwo\n".encode(),
    "form feed.txt": b"one\x0c\n",
}
EDIT = """
import os
from pathlib import Path
for name in Path("names").read_text().split("\\0"):
    data = Path(name).read_bytes()
    sign = "utf-16-le" if name == "utf16.txt" else "ascii"
    Path(name).write_bytes(data.replace("one".encode(sign), "ONE".encode(sign)))
os.renames("old/name.txt", "new/name.txt")
os.remove("gone.txt")
os.chmod("mode.sh", 0o755)
Path("empty").touch()
Path("new ä.txt").write_bytes("schöne neue Welt\\n".encode("latin-1"))
os.symlink("latin.txt", "link")
"""


@pytest.fixture
def project(tmp_path) -> Path:
    root = tmp_path / "project"
    (root / "old").mkdir(parents=True)
    others = {"old/name.txt": b"a\nb\nc\nd\n", "gone.txt": b"gone\n", "mode.sh": b"#!/bin/sh\n"}
    for name, data in {**FILES, **others}.items():
        (root / name).write_bytes(data)
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-qm", "first")
    shutil.copytree(root, tmp_path / "copy", symlinks=True)
    (tmp_path / "edit.py").write_text(EDIT)
    return root


def call(root: Path, *arguments: str) -> bytes:
    program = [sys.executable, str(ROOT / "agent_tui.py"), *arguments]
    ended = subprocess.run(program, cwd=root, capture_output=True, check=False, env=os.environ)
    assert not ended.stderr.startswith(b"agent-tui: unexpected"), ended.stderr
    return ended.stdout


def apply_patch(copy: Path, patch: bytes) -> None:
    subprocess.run(["git", "apply", "-"], cwd=copy, input=patch, check=True)


def read_tree(root: Path) -> dict[str, tuple[int, bytes]]:
    paths = (path for path in root.rglob("*") if ".git" not in path.parts and (path.is_file() or path.is_symlink()))
    return {
        path.relative_to(root).as_posix(): (path.lstat().st_mode & 0o100, str(path.readlink()).encode())
        if path.is_symlink()
        else (path.lstat().st_mode & 0o100, path.read_bytes())
        for path in paths
    }


def test_a_printed_patch_gives_what_an_accept_gives(project, tmp_path):
    names = "\\0".join(FILES)
    command = f"printf '{names}' > names; cat > edit.py <<'P'\n{EDIT}P\n{sys.executable} edit.py; rm names edit.py"
    turns = [
        {
            "match": "^go$",
            "steps": [{"tool_calls": [{"name": "run_terminal_cmd", "arguments": {"command": command}}]}, "Done."],
        }
    ]
    (tmp_path / "script.json").write_text(json.dumps({"turns": turns}))
    call(project, "-p", "go", "--model", f"scripted/{tmp_path}/script.json", "--trust")
    exact, printed = call(project, "diff", "."), call(project, "review", ".", "--print")
    for name, patch in (("exact", exact), ("printed", printed)):
        shutil.copytree(tmp_path / "copy", tmp_path / name, symlinks=True)
        apply_patch(tmp_path / name, patch)
    before = read_tree(project)
    call(project, "review", ".", "--accept", "all", "hidden.txt", "form feed.txt")
    accepted = read_tree(project)
    assert {name for name in accepted if accepted[name] != before.get(name)} >= FILES.keys()
    assert read_tree(tmp_path / "exact") == accepted
    marked = {"hidden.txt", "form feed.txt", "bin.dat"}
    assert read_tree(tmp_path / "printed") == accepted | {name: before[name] for name in marked}
    assert b"# hidden.txt: shown with marks, so it is not part of this patch" in printed
    assert "\u202e".encode() not in printed
