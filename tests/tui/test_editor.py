from __future__ import annotations

from pathlib import Path

import pytest

from tui.files.editors import find_editor_command


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    root = tmp_path / "project"
    for place in (root, root / "bin", tmp_path / "bin"):
        place.mkdir()
        (place / "ed").write_text("#!/bin/sh\n")
        (place / "ed").chmod(0o755)
    monkeypatch.chdir(root)
    return root


@pytest.mark.parametrize("first", [".", "", "bin", "{root}", "{root}/bin"])
def test_n16_s13_an_editor_is_never_one_that_the_project_put_on_the_path(project, first):
    path = f"{first.format(root=project)}:{project.parent}/bin"
    assert find_editor_command({"EDITOR": "ed -w", "PATH": path}) == [f"{project.parent}/bin/ed", "-w"]


def test_an_editor_that_is_named_with_its_path_is_that_one(project):
    assert find_editor_command({"VISUAL": "bin/ed", "EDITOR": "vi", "PATH": ""}) == [str(project / "bin" / "ed")]
