from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.workspace_reader import WorkspaceEditor


@pytest.fixture
def files(tmp_path: Path) -> WorkspaceEditor:
    return WorkspaceEditor(tmp_path)
