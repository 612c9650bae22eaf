"""Plans are written without a review, so the place of plans is one where nothing else is at stake."""

from __future__ import annotations

from pathlib import Path

import pytest

from core import user_dirs
from core.errors import AgentTuiError, PathRefused
from core.plans.plan_store import PlanStore
from core.protocol.documents import Plan
from core.workspace import Workspace
from core.workspace.plan_folder import PlanFolder, find_plan_directory, is_inside_project


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    home = tmp_path / "home"
    (home / "src" / "project" / ".git").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    return home


@pytest.fixture
def project(home) -> Path:
    return home / "src" / "project"


def folder(project: Path, directory: str) -> PlanFolder:
    return PlanFolder(Workspace(project), directory)


@pytest.mark.parametrize(
    "directory", ["docs/plans", "./docs/plans/", "docs//plans", "docs/x/../plans", "PROJECT/docs/plans"]
)
def test_a_place_in_the_project_has_one_spelling(project, directory):
    assert find_plan_directory(project, directory.replace("PROJECT", str(project))) == "docs/plans"


@pytest.mark.parametrize("directory", ["~/plans", "../../plans", "HOME/plans", "~/plans/"])
def test_a_place_elsewhere_is_absolute(home, project, directory):
    assert find_plan_directory(project, directory.replace("HOME", str(home))) == str(home / "plans")


def test_a_link_that_leads_back_into_the_project_is_a_place_in_it(home, project):
    (project / "docs").mkdir()
    (home / "plans").symlink_to(project / "docs")
    assert find_plan_directory(project, "~/plans") == "docs"


@pytest.mark.parametrize(
    "directory",
    [
        *("~", "/", ".", "..", "./", "~/", "../..", "~/src", "~nobody-of-this-name/plans", "/."),
        *(".git", ".git/plans", "sub/.GIT/x", ".agent-tui", ".agent-tui/plans", "~/other/.git/plans", "git~1/x"),
        *("~/.ssh", "~/.ssh/plans", "~/.gnupg", "~/.aws/x", ".env", "secrets", "~/x/.kube", "~/.config/gh"),
        *("STATE", "STATE/plans", "CONFIG", "CONFIG/plans", "~/to-home", "~/to-git", "~/to-keys/x"),
    ],
)
def test_no_place_of_something_else_holds_plans(home, project, directory):
    (home / ".ssh").mkdir()
    for name, target in (("to-home", home), ("to-git", project / ".git"), ("to-keys", home / ".ssh")):
        (home / name).symlink_to(target)
    directory = directory.replace("STATE", str(user_dirs.get_state_dir()))
    directory = directory.replace("CONFIG", str(user_dirs.get_config_dir()))
    before = sorted(home.rglob("*"))
    with pytest.raises(PathRefused) as refused:
        find_plan_directory(project, directory)
    assert "plans.directory" in refused.value.message
    assert refused.value.hint
    with pytest.raises(PathRefused):
        PlanStore(folder(project, directory)).create(Plan(path="", name="X"))
    with pytest.raises(PathRefused):
        PlanStore(folder(project, directory)).list_plans()
    folder(project, directory).remove_abandoned()
    assert sorted(home.rglob("*")) == before


@pytest.mark.parametrize("directory", ["docs/plans", "~/plans/new"])
def test_plans_are_made_read_changed_listed_and_removed_there(home, project, directory):
    files = folder(project, directory)
    store = PlanStore(files)
    assert store.list_plans().plans == ()
    new_plan = store.create(Plan(path="", name="My plan"))
    assert new_plan.path.startswith(f"{find_plan_directory(project, directory)}/my-plan_")
    place = project / new_plan.path
    assert place.is_file()
    assert not (project / ".cursor").exists()
    assert store.edit(new_plan.path, name="Other").plan.name == "Other"
    (place.parent / "notes.md").write_text("mine")
    assert [plan.name for plan in PlanStore(folder(project, directory)).list_plans().plans] == ["Other"]
    assert [entry.name for entry in place.parent.iterdir() if entry.name.endswith(".tmp")] == []
    for path in (str(place.parent / "notes.md"), str(place.parent / "sub" / "x.plan.md"), "/etc/x.plan.md"):
        with pytest.raises(PathRefused):
            files.write(path, b"mine")
    files.remove(new_plan.path)
    assert not place.exists()
    assert (place.parent / "notes.md").read_text() == "mine"


@pytest.mark.parametrize("kind", ["link", "dangling", "hard link", "directory"])
def test_a_plan_elsewhere_is_a_regular_file_with_one_name(home, project, kind):
    mine, place = home / "mine.md", home / "plans" / "x_01234567.plan.md"
    mine.write_text("mine")
    place.parent.mkdir()
    match kind:
        case "link":
            place.symlink_to(mine)
        case "dangling":
            place.symlink_to(home / "new.md")
        case "hard link":
            place.hardlink_to(mine)
        case _:
            place.mkdir()
    with pytest.raises(PathRefused):
        folder(project, "~/plans").write(str(place), b"theirs")
    with pytest.raises(AgentTuiError):
        PlanStore(folder(project, "~/plans")).edit(str(place), name="Y", body="Z")
    assert mine.read_text() == "mine"
    assert not (home / "new.md").exists()


def test_a_plan_in_the_usual_place_stays_one_wherever_new_ones_go(project):
    plan = PlanStore(folder(project, ".cursor/plans")).create(Plan(path="", name="Old"))
    store = PlanStore(folder(project, "~/plans"))
    assert store.load(plan.path).name == "Old"
    assert store.create(Plan(path="", name="New")).path.startswith("/")


@pytest.mark.parametrize(
    ("directory", "expected"),
    [
        *(("docs/plans", True), ("./x", True), ("..x/y", True), ("~", False), ("~/plans", False), ("/x", False)),
        *(("../x", False), ("x/../../y", False), (".", False), ("./", False), ("a/..", False)),
    ],
)
def test_a_place_in_the_project_is_known_by_its_spelling(directory, expected):
    assert is_inside_project(directory) is expected
