from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from core.errors import ToolFailed
from core.filesystem.removal import remove_tree
from core.sandbox.box import BoxRequest
from core.sandbox.tiers import project_survey
from core.sandbox.tiers.project_copy import ProjectCopy, copy_project, move_changes, remove_copy
from core.sandbox.tiers.project_survey import CopyLimits
from tests.support.deep import deepen
from tests.support.steps import few_calls_deep


def whiteout(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mknod(path, stat.S_IFCHR, os.makedev(0, 0))


def shape(root: Path) -> dict[str, str]:
    """Content by path; directories end in a slash, whiteouts are "gone", links show where they lead."""
    entries = {}
    for path in sorted(root.rglob("*")):
        info, name = path.lstat(), str(path.relative_to(root))
        if stat.S_ISLNK(info.st_mode):
            entries[name] = f"-> {path.readlink()}"
        elif stat.S_ISDIR(info.st_mode):
            entries[f"{name}/"] = ""
        elif stat.S_ISCHR(info.st_mode):
            entries[name] = "gone"
        else:
            entries[name] = path.read_text() if stat.S_ISREG(info.st_mode) else "special"
    return entries


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "src" / "deep").mkdir(parents=True)
    for name in ("a", "b", "src/one", "src/deep/two"):
        (root / name).write_text(f"{name}\n")
    (root / "link").symlink_to("src/one")
    return root


def copied(
    project: Path, *lowers: Path, withheld: tuple[str, ...] = (), limits: CopyLimits | None = None
) -> ProjectCopy:
    spec = BoxRequest(workspace=project, command="", env={}, lowers=lowers, withheld=withheld)
    return copy_project(spec, project.parent / "copy", limits=limits)


def layer(copy: ProjectCopy) -> dict[str, str]:
    upper = copy.root.parent / "upper"
    upper.mkdir()
    move_changes(copy, upper, is_mounted=False)
    return shape(upper)


def test_layers_are_merged_as_an_overlay_would(project: Path, tmp_path: Path):
    top, below = tmp_path / "top", tmp_path / "below"
    for name in ("new", "src/deep/three"):
        (below / name).parent.mkdir(parents=True, exist_ok=True)
        (below / name).write_text("below\n")
    whiteout(below / "a")
    (top / "src").mkdir(parents=True)
    (top / "src" / "deep").write_text("a file now\n")
    (top / "a").write_text("back\n")
    whiteout(top / "b")
    assert shape(copied(project, top, below).root) == {
        "a": "back\n",
        "link": "-> src/one",
        "new": "below\n",
        "src/": "",
        "src/deep": "a file now\n",
        "src/one": "src/one\n",
    }


def test_an_opaque_directory_hides_what_lies_below_it(project: Path, tmp_path: Path):
    top = tmp_path / "top"
    (top / "src").mkdir(parents=True)
    (top / "src" / "only").write_text("only\n")
    os.setxattr(top / "src", "user.overlay.opaque", b"y")
    assert [name for name in shape(copied(project, top).root) if name.startswith("src")] == ["src/", "src/only"]


def test_what_was_not_touched_is_not_in_the_layer(project: Path):
    assert layer(copied(project)) == {}


def test_each_kind_of_change_is_written_as_an_overlay_would(project: Path):
    copy = copied(project)
    (copy.root / "a").write_text("changed\n")
    (copy.root / "b").unlink()
    (copy.root / "made").mkdir()
    (copy.root / "made" / "f").write_text("f\n")
    (copy.root / "src" / "deep" / "two").unlink()
    (copy.root / "src" / "deep").rmdir()
    (copy.root / "link").unlink()
    (copy.root / "link").symlink_to("b")
    (copy.root / "src" / "one").chmod(0o755)
    assert layer(copy) == {
        "a": "changed\n",
        "b": "gone",
        "link": "-> b",
        "made/": "",
        "made/f": "f\n",
        "src/": "",
        "src/deep": "gone",
        "src/one": "src/one\n",
    }
    assert (project.parent / "upper" / "src" / "one").stat().st_mode & 0o777 == 0o755


def test_a_change_that_hides_behind_the_old_time_and_size_is_found(project: Path):
    copy = copied(project)
    old = (copy.root / "a").stat()
    (copy.root / "a").write_text("A\n")
    os.utime(copy.root / "a", ns=(old.st_atime_ns, old.st_mtime_ns))
    assert layer(copy) == {"a": "A\n"}


def test_a_directory_and_a_file_take_each_others_place(project: Path):
    copy = copied(project)
    (copy.root / "a").unlink()
    (copy.root / "a").mkdir()
    (copy.root / "a" / "in").write_text("in\n")
    (copy.root / "src" / "deep" / "two").unlink()
    (copy.root / "src" / "deep").rmdir()
    (copy.root / "src" / "deep").write_text("file\n")
    assert layer(copy) == {"a/": "", "a/in": "in\n", "src/": "", "src/deep": "file\n"}


def test_a_link_out_of_the_copy_is_moved_and_never_followed(project: Path, tmp_path: Path):
    outside = tmp_path / "outside"
    outside.mkdir()
    copy = copied(project)
    (copy.root / "src" / "deep" / "two").unlink()
    (copy.root / "src" / "deep").rmdir()
    (copy.root / "src" / "deep").symlink_to(outside)
    assert layer(copy)["src/deep"] == f"-> {outside}"
    assert list(outside.iterdir()) == []


def test_shut_directories_and_special_files_do_not_stop_it(project: Path):
    copy = copied(project)
    os.mkfifo(copy.root / "fifo")
    (copy.root / "shut").mkdir()
    (copy.root / "shut" / "f").write_text("f\n")
    (copy.root / "shut").chmod(0)
    assert set(layer(copy)) >= {"fifo", "shut/"}
    assert (project.parent / "upper" / "shut").stat().st_mode & 0o777 == 0
    remove_copy(copy.root)
    assert not copy.root.exists()


def test_what_is_withheld_is_an_empty_entry_whose_fate_does_not_count(project: Path):
    copy = copied(project, withheld=("a", "src"))
    assert (copy.root / "a").stat().st_size == 0
    assert list((copy.root / "src").iterdir()) == []
    (copy.root / "a").unlink()
    (copy.root / "a").write_text("mine\n")
    assert layer(copy) == {}


@pytest.mark.parametrize("limits", [CopyLimits(size=4), CopyLimits(seconds=0.0)])
def test_a_copy_that_costs_too_much_is_refused_and_nothing_is_left(project: Path, limits: CopyLimits):
    for number in range(80):
        (project / f"file{number}").write_text("x\n")
    with pytest.raises(ToolFailed, match="needs a copy of the project") as refused:
        copied(project, limits=limits)
    assert refused.value.code == "copy_too_large"
    assert "doctor" in refused.value.hint
    assert not (project.parent / "copy").exists()


def test_what_git_ignores_is_copied_while_it_is_small_and_held_when_it_is_not(project: Path):
    (project / ".gitignore").write_text("build/\nnode_modules/\n")
    for name, size in (("build", 10), ("node_modules", 5000)):
        (project / name).mkdir()
        (project / name / "file").write_text("x" * size)
    copy = copied(project, limits=CopyLimits(ignored_size=1000))
    assert copy.held == [b"node_modules"]
    assert (copy.root / "build" / "file").exists()
    assert list((copy.root / "node_modules").iterdir()) == []


def test_n15_directories_in_directories_are_copied_and_compared_as_all_others(project: Path):
    levels = 260
    deepen(project, levels, "kept")
    deepen(project / "src", levels, "gone")
    with few_calls_deep(170):
        copy = copied(project)
        (copy.root / ("src/" + "d/" * levels) / "gone").unlink()
        deepen(copy.root, 2 * levels, "new")
        upper = project.parent / "upper"
        upper.mkdir()
        move_changes(copy, upper, is_mounted=False)
        remove_copy(copy.root)
    assert (upper / ("d/" * 2 * levels) / "new").is_file()
    assert stat.S_ISCHR((upper / ("src/" + "d/" * levels) / "gone").lstat().st_mode)
    assert not (upper / ("d/" * levels) / "kept").exists()
    assert not copy.root.exists()
    remove_tree(upper)
    remove_tree(project)


def test_n15_what_no_path_can_name_is_refused_and_nothing_is_left(project: Path):
    deepen(project, 25, name="d" * 200)
    with pytest.raises(ToolFailed, match="nested too deep"):
        copied(project)
    assert not (project.parent / "copy").exists()
    remove_tree(project)


def test_without_a_table_of_mounts_another_device_is_held(project: Path, monkeypatch: pytest.MonkeyPatch):
    def fail(_root: bytes) -> list[bytes]:
        raise FileNotFoundError(2, "No such file or directory", "/proc/self/mountinfo")

    monkeypatch.setattr(project_survey, "list_mounts_below", fail)
    assert copied(project).held == []
    remove_copy(project.parent / "copy")
    (project / "mounted").mkdir()
    lstat, scan = os.lstat, project_survey.merge_directories

    def mount(stack: list[bytes], bottom: bytes) -> dict[bytes, list[project_survey.StackedEntry]]:
        entries = scan(stack, bottom)
        if b"mounted" in entries:
            values = list(lstat(entries[b"mounted"][0].path))
            values[2] += 1  # st_dev
            entry = entries[b"mounted"][0]._replace(info=os.stat_result(values))
            entries[b"mounted"] = [entry]
        return entries

    monkeypatch.setattr(project_survey, "merge_directories", mount)
    assert copied(project).held == [b"mounted"]
