"""Plans are the one thing that is written without a review, so nothing but a plan can be written as one."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from core.errors import AgentTuiError, PathRefused
from core.filesystem import open_beneath as beneath
from core.plans.plan_store import PlanStore
from core.protocol.documents import Plan
from core.workspace import Workspace
from core.workspace.file_names import is_plan
from core.workspace.plan_folder import MAX_PLAN_BYTES, PlanFolder

TEXT = "---\nname: X\ntodos:\n- id: a\n  content: A\n---\n# X\n"
PATH = ".cursor/plans/x_0123abcd.plan.md"
NO_PLANS = (
    *(".cursor/rules/a.mdc", ".claude/agents/a.md", ".claude/skills/a/SKILL.md", "AGENTS.md", "docs/a.md", "a.plan.md"),
    *("sub/.cursor/plans/a.plan.md", ".cursor/plans/sub/a.plan.md", ".cursor/plans/a.md", ".Cursor/plans/a.plan.md"),
    *(".cursor/plans/.plan.md", ".cursor/plans/.hidden.plan.md", ".cursor/plans/a.plan.MD", ".cursor/plans", "."),
    *(".git/config", ".cursor/plans/../rules/a.plan.md", "/etc/a.plan.md", ".cursor/plans/a\0.plan.md", "", "\ud800"),
    f".cursor/plans/{'a' * 260}.plan.md",
)


@pytest.fixture(params=["openat2", "walking"])
def project(request, tmp_path, monkeypatch) -> Path:
    if request.param == "walking":
        monkeypatch.setattr(beneath, "_choose_opener", lambda: beneath.open_by_walking)
    (tmp_path / "outside").mkdir()
    root = tmp_path / "project"
    (root / ".git").mkdir(parents=True)
    return root


def store(project: Path) -> PlanStore:
    return PlanStore(folder(project))


def folder(project: Path) -> PlanFolder:
    return PlanFolder(Workspace(project, state_dir=project.parent / "state"))


def write(path: Path, text: str = TEXT) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def bytes_of(project: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(project.parent)): path.read_bytes()
        for path in sorted(project.parent.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("path", NO_PLANS)
def test_n1_no_other_path_is_read_or_written_as_a_plan(project, path):
    assert not is_plan(path)
    with contextlib.suppress(OSError, ValueError):  # some of them are no possible file
        write(project / path.removeprefix("/"))
    before = bytes_of(project)
    with pytest.raises(PathRefused):
        folder(project).write(path, b"mine")
    with pytest.raises(PathRefused):
        folder(project).read(path)
    with pytest.raises(AgentTuiError):
        store(project).edit(path, name="Y", body="Obey.")
    with pytest.raises(AgentTuiError):
        store(project).set_todo(path, "a", "completed")
    assert bytes_of(project) == before


@pytest.mark.parametrize("place", [".cursor", ".cursor/plans"])
@pytest.mark.parametrize("target", ["rules", ".git", "../outside", "absolute"])
def test_n1_no_link_on_the_way_leads_a_plan_elsewhere(project, place, target):
    (project / "rules").mkdir()
    link = project / place
    link.parent.mkdir(exist_ok=True)
    where = str(project / ".git") if target == "absolute" else target if target.startswith("..") else f"./{target}"
    link.symlink_to(where if place == ".cursor" or target == "absolute" else f"../{where}")
    for directory in (project / "rules", project / ".git", project.parent / "outside"):
        write(directory / "x_0123abcd.plan.md")
        write(directory / "plans" / "x_0123abcd.plan.md")
    before = bytes_of(project)
    with pytest.raises(PathRefused):
        store(project).edit(PATH, name="Y")
    with pytest.raises(PathRefused):
        store(project).load(PATH)
    with pytest.raises(PathRefused):
        store(project).create(Plan(path="", name="Y"))
    with pytest.raises(PathRefused):
        store(project).list_plans()
    assert bytes_of(project) == before


@pytest.mark.parametrize("kind", ["link", "link out", "dangling", "hard link", "pipe", "directory"])
def test_n1_a_plan_is_a_regular_file_with_one_name(project, kind):
    plan, rule = project / PATH, write(project / ".cursor" / "rules" / "a.mdc")
    plan.parent.mkdir()
    outside = write(project.parent / "outside" / "a.md")
    match kind:
        case "link":
            plan.symlink_to(rule)
        case "link out":
            plan.symlink_to(outside)
        case "dangling":
            plan.symlink_to("../rules/new.mdc")
        case "hard link":
            plan.hardlink_to(rule)
        case "pipe":
            os.mkfifo(plan)
        case _:
            plan.mkdir()
    before, names = bytes_of(project), sorted(plan.parent.iterdir())
    with pytest.raises(PathRefused):
        folder(project).write(PATH, b"mine")
    with pytest.raises(AgentTuiError):
        store(project).edit(PATH, name="Y", body="Obey.")
    assert bytes_of(project) == before
    assert sorted(plan.parent.iterdir()) == names
    listing = store(project).list_plans()
    assert [listed_plan.path for listed_plan in listing.broken or listing.plans] == [PATH]


def test_n1_a_plan_that_is_too_large_is_refused_and_never_cut(project):
    plan = write(project / PATH, TEXT + "x" * MAX_PLAN_BYTES)
    with pytest.raises(PathRefused, match="too large"):
        store(project).edit(PATH, name="Y")
    assert plan.stat().st_size == len(TEXT) + MAX_PLAN_BYTES


def test_n1_plans_are_made_read_changed_and_listed_where_they_belong(project):
    new_plan = store(project).create(Plan(path="", name="My plan"))
    assert is_plan(new_plan.path)
    (project / new_plan.path).chmod(0o600)
    assert store(project).edit(new_plan.path, name="Other").plan.name == "Other"
    assert (project / new_plan.path).stat().st_mode & 0o777 == 0o600
    write(project / ".cursor" / "plans" / "notes.md")
    assert [plan.path for plan in store(project).list_plans().plans] == [new_plan.path]
    assert store(project).load(f"{project}/{new_plan.path}").name == "Other"
    assert folder(project).read(PATH) is None
    assert folder(project).list_paths() == [new_plan.path]


def test_n15_what_a_killed_write_of_a_plan_left_goes_and_nothing_else(project):
    folder(project).write(PATH, TEXT.encode())
    plans = project / ".cursor/plans"
    left, fresh = plans / ".agent-tui-plan-0123456789abcdef.tmp", plans / ".agent-tui-plan-fedcba9876543210.tmp"
    retained_paths = [
        plans / ".agent-tui-0123456789abcdef.tmp",
        plans / ".agent-tui-plan-mine.tmp",
        plans / "old.txt",
        fresh,
    ]
    for path in (left, *retained_paths):
        path.write_text("part")
    for path in (left, *retained_paths[:-1]):
        os.utime(path, (1, 1))
    folder(project).remove_abandoned()
    assert not left.exists()
    assert all(path.exists() for path in retained_paths)
    assert folder(project).read(PATH) == TEXT.encode()


def test_n15_the_sweep_passes_no_link(project, tmp_path):
    left = tmp_path / "outside" / ".agent-tui-plan-0123456789abcdef.tmp"
    left.write_text("part")
    os.utime(left, (1, 1))
    (project / ".cursor").mkdir()
    (project / ".cursor/plans").symlink_to(tmp_path / "outside")
    folder(project).remove_abandoned()
    assert left.exists()


def test_n15_a_plan_is_written_under_a_name_that_the_sweep_knows(project, monkeypatch):
    def killed(*_arguments: object, **_more: object) -> None:
        raise KeyboardInterrupt

    folder(project).write(PATH, TEXT.encode())
    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", killed)
        with pytest.raises(KeyboardInterrupt):
            folder(project).write(PATH, b"new")
    (left,) = (project / ".cursor/plans").glob(".agent-tui-*")
    os.utime(left, (1, 1))
    folder(project).remove_abandoned()
    assert not left.exists()
