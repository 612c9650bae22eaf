"""What git tracks is reviewed though it is ignored, wherever the repository's own directory lies."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from core.shadow.absorber import TrackedTree
from tests.unit.shadow.review_case import ReviewCase


def git(at: Path, *arguments: str) -> None:
    names = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    subprocess.run(["git", *names, *arguments], cwd=at, check=True, capture_output=True)


@pytest.fixture(params=["part", "worktree", "part of a worktree"])
def review(request, tmp_path) -> ReviewCase:
    place = tmp_path / "place"
    top = place / "project" if request.param == "worktree" else place
    if request.param == "part":
        place.mkdir()
        git(place, "init", "-q")
    else:
        git(tmp_path, "init", "-q", "main")
        git(tmp_path / "main", "commit", "-q", "--allow-empty", "-m", "one")
        git(tmp_path / "main", "worktree", "add", "-q", str(top))
    review_case = ReviewCase(place)
    (top / ".gitignore").write_text("*.log\n")
    review_case.put("kept.log", b"")
    review_case.put("new.log", b"")
    git(review_case.root, "add", "-f", "kept.log")
    return review_case


def test_a_tracked_file_is_reviewed_though_it_is_ignored(review):
    layer = review.shadow.open_layer()
    classes = TrackedTree(review.shadow.merged_tree).build_classes(layer)
    kinds = [classes.classify(name, False).kind for name in ("kept.log", "new.log", "other.py")]
    assert kinds == ["reviewed", "generated", "reviewed"]
