"""The capability of an editing tool: files by the paths that a model writes, over the shadow."""

from __future__ import annotations

import pytest

from core.agent.base.call_lease import CallLease
from core.agent.gate.capabilities import build_capabilities
from core.agent.gate.file_capabilities import FileEditor
from core.errors import PathRefused
from core.modes import Access
from core.permissions.approval import Approval
from core.protocol.review import Origin
from tests.support.agent_case import Case


def test_a_tool_sees_the_shadow_by_paths_as_the_model_writes_them(tmp_path):
    case = Case(tmp_path)
    (case.project / ".gitignore").write_bytes(b"*.log\n")
    (case.project / "x.log").touch()
    origin = Origin(call="c", tool="write")
    editor = build_capabilities(case.session).build(Access.PROPOSE, origin, Approval(subject=""), CallLease())
    assert isinstance(editor, FileEditor)
    done = editor.write(f"{case.project}/src/./a.py", b"1\n")
    assert (done.path, done.operation, case.review.changes["src/a.py"].origin) == ("src/a.py", "create", origin)
    assert editor.read_bytes("src/a.py", 1) == b"1"
    assert dict(editor.pending_paths()) == {"src/a.py": "create"}
    listed = [(entry.name, entry.kind, entry.ignored) for entry in editor.list_dir(".")]
    assert listed == [("src", "directory", False), (".gitignore", "file", False), ("x.log", "file", True)]
    assert editor.delete("src/a.py").operation == "delete"
    with pytest.raises(PathRefused):
        editor.read_bytes("src/a.py", 1)
    with pytest.raises(PathRefused):
        editor.write("../x", b"")
