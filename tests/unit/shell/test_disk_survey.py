from __future__ import annotations

import os

import pytest

from core.shell.disk_survey import DiskChanges, survey_disk


def keep_all(_directory: str):
    return lambda name, _is_directory: name in {".git", "build"}


@pytest.fixture
def root(tmp_path):
    for name in ("a.txt", "sub/b.txt", "build/out", ".git/HEAD", ".git/refs/heads/main"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("1\n")
    return tmp_path


def test_two_surveys_tell_what_came_went_and_changed(root):
    before = survey_disk(root, keep_all)
    (root / "a.txt").write_text("two\n")
    (root / "sub" / "b.txt").unlink()
    (root / "sub" / "c.txt").symlink_to("/etc/passwd")
    (root / "build" / "out").write_text("ignored\n")
    disk_changes = before.compare(survey_disk(root, keep_all))
    assert disk_changes == DiskChanges(created=("sub/c.txt",), edited=("a.txt",), deleted=("sub/b.txt",))


def test_a_change_that_leaves_the_size_and_takes_back_the_time_shows(root):
    before, times = survey_disk(root, keep_all), (root / "a.txt").stat()
    (root / "a.txt").write_text("2\n")
    os.utime(root / "a.txt", ns=(times.st_atime_ns, times.st_mtime_ns))
    assert before.compare(survey_disk(root, keep_all)) == DiskChanges(edited=("a.txt",))


@pytest.mark.parametrize("name", ["HEAD", "refs/heads/other", "index"])
def test_what_git_keeps_is_one_thing(root, name):
    before = survey_disk(root, keep_all)
    (root / ".git" / name).write_text("22\n")
    assert before.compare(survey_disk(root, keep_all)) == DiskChanges(has_git_changed=True)


def test_of_a_project_that_is_too_large_nothing_is_said(root, monkeypatch):
    monkeypatch.setattr("core.shell.disk_survey.MAX_ENTRIES", 2)
    short = survey_disk(root, keep_all)
    assert not short.is_whole
    monkeypatch.undo()
    assert survey_disk(root, keep_all).compare(short) is None


def test_a_directory_that_is_gone_meanwhile_is_empty(tmp_path):
    assert survey_disk(tmp_path / "gone", keep_all).files == {".git": (0,) * 6}
