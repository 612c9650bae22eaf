"""A rule that denies writing holds where accepted content goes to the project, whoever made it."""

from __future__ import annotations

import subprocess

import pytest

from core.errors import ReviewConflict
from core.permissions.rules import parse_rule
from tests.unit.shadow.overlay_mount import needs_mounts, run


def deny(review, *patterns: str) -> None:
    review.rules[:] = [parse_rule(f"Write({pattern})", "deny", "config.toml") for pattern in patterns]


@pytest.fixture
def project(review):
    review.put("infra/main.tf", b"a\n")
    review.put("src/a.py", b"a\n")
    deny(review, "infra/**")
    return review


def assert_denied(review, path: str, *others: str) -> None:
    change = review.state.changes[path]
    assert (change.protected, change.is_denied) == (True, True)
    assert "the rule deny Write(infra/**) of config.toml applies" in change.risk
    before = review.files()
    with pytest.raises(ReviewConflict, match=r"the rule deny Write\(infra/\*\*\) of config\.toml applies"):
        review.shadow.resolve(path)
    with pytest.raises(ReviewConflict, match="Nothing was written"):
        review.shadow.accept_files([path, *others])
    assert review.files() == before
    assert path in review.state.changes


def test_n24_a_denied_path_of_a_tool_is_never_written(project):
    project.shadow.write("infra/main.tf", b"b\n")
    project.shadow.write("src/a.py", b"b\n")
    assert_denied(project, "infra/main.tf", "src/a.py")
    project.shadow.resolve("src/a.py")
    assert project.disk("src/a.py") == b"b\n"
    project.shadow.resolve("infra/main.tf", (), "reject")
    assert project.state.changes == {}


@needs_mounts
@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("echo b > infra/main.tf", "infra/main.tf"),
        ("rm infra/main.tf", "infra/main.tf"),
        ("chmod +x infra/main.tf", "infra/main.tf"),
        ("mv src/a.py infra/moved.py", "infra/moved.py"),
        ("mv infra/main.tf src/main.tf", "infra/main.tf"),
        ("ln -s /etc infra/link", "infra/link"),
        ("mkdir -p INFRA; echo b > INFRA/new.tf", "INFRA/new.tf"),
    ],
)
def test_n24_nor_one_of_a_command_in_whatever_way_it_was_changed(project, command, path):
    run(project, command)
    assert_denied(project, path)


@needs_mounts
def test_n24_nor_by_the_other_path_of_a_rename(project):
    run(project, "mv infra/main.tf src/main.tf")
    with pytest.raises(ReviewConflict, match=r"infra/main\.tf may not be written"):
        project.shadow.resolve("src/main.tf")
    assert project.disk("src/main.tf") is None


@needs_mounts
def test_n24_a_path_behind_a_link_is_known_by_both_names(project):
    (project.root / "stacks").mkdir()
    (project.root / "infra" / "live").symlink_to("../stacks")
    (project.root / "elsewhere").mkdir()
    deny(project, "infra/**")
    (project.root / "live").symlink_to("elsewhere")
    run(project, "echo b > live/x")
    deny(project, "live/**")
    project.shadow.refresh_annotations()
    assert "live/x as well" in project.state.changes["elsewhere/x"].risk
    with pytest.raises(ReviewConflict):
        project.shadow.resolve("elsewhere/x")


@needs_mounts
@pytest.mark.parametrize("command", ["mkdir dist; echo b > dist/keep", "rm -rf dist", "rm -rf dist; mkdir dist"])
def test_n24_what_is_decided_as_a_whole_is_held_to_it(project, command):
    project.put(".gitignore", b"dist/\n")
    if command.startswith("rm"):
        project.put("dist/keep", b"a")
    run(project, command)
    deny(project, "dist/keep")
    project.shadow.check_bulks()
    (bulk,) = project.state.bulks
    assert "deny Write(dist/keep)" in bulk.conflict
    before = project.files()
    with pytest.raises(ReviewConflict, match=r"dist/keep may not be written"):
        project.shadow.resolve_bulk(bulk.root)
    assert project.files() == before
    deny(project)
    project.shadow.resolve_bulk(bulk.root)
    assert project.files() != before


@needs_mounts
def test_n24_and_so_is_a_state_of_git(project):
    git = "git -c user.name=t -c user.email=t@example.org -c safe.directory='*'"
    subprocess.run(["sh", "-ec", f"git init -q; git add .; {git} commit -qm one"], cwd=project.root, check=True)
    run(project, "git branch extra; git tag v1")
    deny(project, ".git/refs/tags/**")
    with pytest.raises(ReviewConflict, match=r"\.git/refs/tags/v1 may not be written"):
        project.shadow.resolve_bulk(".git")
    deny(project, "src/**")
    project.shadow.resolve_bulk(".git")
    assert (project.root / ".git/refs/tags/v1").is_file()


def test_n24_what_the_user_accepted_before_the_rule_can_be_taken_back(project):
    deny(project)
    project.shadow.write("infra/main.tf", b"b\n")
    project.shadow.resolve("infra/main.tf")
    deny(project, "infra/**")
    project.shadow.undo()
    assert project.disk("infra/main.tf") == b"a\n"
    project.shadow.refresh_annotations()
    assert_denied(project, "infra/main.tf")


def test_n24_a_rule_that_is_gone_holds_no_more(project):
    project.shadow.write("infra/main.tf", b"b\n")
    project.shadow.write("infra/.envrc", b"b\n")
    deny(project)
    project.shadow.refresh_annotations()
    changes = project.state.changes
    assert (changes["infra/main.tf"].protected, changes["infra/main.tf"].risk) == (False, "")
    assert (changes["infra/.envrc"].protected, changes["infra/.envrc"].is_denied) == (True, False)
    project.shadow.resolve("infra/main.tf")
    assert project.disk("infra/main.tf") == b"b\n"


def test_n24_rules_that_ask_or_are_about_reading_hold_nothing_back(project):
    project.rules[:] = [parse_rule("Write(infra/**)", "ask"), parse_rule("Read(infra/**)", "deny")]
    project.shadow.write("infra/main.tf", b"b\n")
    project.shadow.resolve("infra/main.tf")
    assert project.disk("infra/main.tf") == b"b\n"


GIT = "git -c user.name=t -c user.email=t@example.org -c safe.directory='*'"


def in_git(review, command: str) -> str:
    done = subprocess.run(["sh", "-ec", command], cwd=review.root, check=True, capture_output=True, text=True)
    return done.stdout


@needs_mounts
@pytest.mark.parametrize(
    "command",
    [
        f"git rm -q --cached infra/main.tf; {GIT} commit -qm gone",
        f"git update-index --chmod=+x infra/main.tf; {GIT} commit -qm mode",
        "git update-index --chmod=+x infra/main.tf",
        "git rm -q --cached infra/main.tf",
        f"git rm -q --cached infra/main.tf; {GIT} commit -qm gone; git branch b; git reset -q --mixed HEAD~",
        f"git rm -q --cached infra/main.tf; {GIT} commit -qm gone; git reset -q HEAD~ infra; {GIT} commit -qm back",
        f"git checkout -q --orphan o; git rm -q --cached infra/main.tf; {GIT} commit -qm orphan",
    ],
)
def test_n24_git_holds_no_denied_path_otherwise(project, command):
    in_git(project, f"git init -q -b main; git add .; {GIT} commit -qm one")
    run(project, command)
    before = in_git(project, "git for-each-ref; git ls-files -s")
    assert "the rule deny Write(infra/**) of config.toml" in project.shadow.bulks.git.preview(".git").refused
    with pytest.raises(
        ReviewConflict, match=r"git's content for infra/main\.tf, which .* the rule deny Write\(infra/\*\*\)"
    ):
        project.shadow.resolve_bulk(".git")
    assert in_git(project, "git for-each-ref; git ls-files -s") == before
    deny(project)
    assert "deny Write" not in project.shadow.bulks.git.preview(".git").refused


@needs_mounts
@pytest.mark.parametrize(
    "command",
    [
        f"git rm -q --cached src/a.py; {GIT} commit -qm other",
        f"{GIT} commit -q --allow-empty --amend -m again",
        f"git checkout -q --orphan o; {GIT} commit -qm orphan",
        "git checkout -q -b new; git tag t",
    ],
)
def test_n24_a_state_of_git_that_leaves_a_denied_path_as_it_is_is_accepted(project, command):
    in_git(project, f"git init -q -b main; git add .; {GIT} commit -qm one")
    run(project, command)
    project.shadow.resolve_bulk(".git")
    assert project.state.bulks == ()
