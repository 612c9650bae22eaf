"""The review of each test of the shadow."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.shadow.review_case import ReviewCase


@pytest.fixture
def review(tmp_path: Path) -> ReviewCase:
    return ReviewCase(tmp_path)
