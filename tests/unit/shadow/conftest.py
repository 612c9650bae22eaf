"""The desk of each test of the shadow."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.shadow.project_fixture import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)
