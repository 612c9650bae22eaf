"""What acts by itself because of what stands around it is red, whatever its name, and never accepted in bulk."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tests.unit.shadow.overlay_mount import needs_mounts, run
from tests.unit.shadow.project_fixture import Desk


def red(desk) -> set[str]:
    return {path for path, change in desk.state.changes.items() if change.protected}


def git(desk, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=desk.root, check=True, capture_output=True)


@pytest.mark.parametrize("place", ["", "fixtures/deep/repo/"])
def test_n9_a_directory_becomes_a_repository_with_its_last_part(desk, place):
    desk.shadow.write(f"{place}config", b"[core]\n\tfsmonitor = evil\n")
    desk.shadow.write(f"{place}objects/pack/x", b"")
    desk.shadow.write(f"{place}HEAD", b"ref: refs/heads/main\n")
    assert red(desk) == set()
    desk.shadow.write(f"{place}refs/heads/x", b"")
    desk.shadow.write("src/a.py", b"")
    assert red(desk) == {f"{place}{each}" for each in ("config", "objects/pack/x", "HEAD", "refs/heads/x")}
    assert "for a repository" in desk.state.changes[f"{place}config"].risk
    desk.shadow.resolve("")
    assert desk.disk(f"{place}config") is None
    assert desk.disk("src/a.py") == b""


def test_n9_a_repository_that_is_there_keeps_what_is_changed_in_it_red(desk):
    git(desk, "init", "-q", "--bare", "fixture.git")
    desk.shadow.write("fixture.git/config", b"[core]\n\tfsmonitor = evil\n")
    assert red(desk) == {"fixture.git/config"}


@pytest.mark.parametrize(
    ("name", "value"), [("a", "tools/hooks"), ("b", "./tools/hooks/"), ("c", "{root}/tools/hooks")]
)
def test_n9_the_directory_that_hooks_are_taken_from_is_red(desk, name, value):
    git(desk, "init", "-q")
    git(desk, "config", "core.hooksPath", value.replace("{root}", str(desk.root)))
    desk.shadow.write("tools/hooks/pre-commit", b"evil")
    desk.shadow.write("tools/other", b"")
    assert red(desk) == {"tools/hooks/pre-commit"}


def test_n9_also_where_the_user_named_it_for_all_repositories(desk, monkeypatch, tmp_path):
    git(desk, "init", "-q")
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".gitconfig").write_text("[core]\n\thooksPath = .hooks-of-mine\n")
    desk.shadow.write(".hooks-of-mine/pre-commit", b"evil")
    assert red(desk) == {".hooks-of-mine/pre-commit"}


@pytest.mark.parametrize(
    ("link", "target", "path"),
    [
        (".vscode", "conf/vs", "conf/vs/tasks.json"),
        ("AGENTS.md", "docs/agents-guide.md", "docs/agents-guide.md"),
        (".github/workflows", "../ci", "ci/build.yml"),
        ("sub/.husky", "../hooks", "hooks/pre-commit"),
        (".VSCode", "conf/vs", "conf/vs/tasks.json"),
        (".vscode", ".", "tasks.json"),
    ],
)
def test_n9_what_lies_behind_a_link_of_a_red_name_is_red(desk, link, target, path):
    desk.put("conf/vs/settings.json", b"{}")
    desk.put("docs/x", b"")
    desk.put("sub/keep", b"")
    (desk.root / link).parent.mkdir(exist_ok=True)
    (desk.root / link).symlink_to(target)
    if link.startswith("sub/"):
        desk.shadow.write("sub/other.py", b"")
    desk.shadow.write(path, b"evil")
    assert path in red(desk)
    assert "sub/other.py" not in red(desk)
    assert "as well" in desk.state.changes[path].risk


@needs_mounts
def test_n9_also_when_the_link_is_pending_and_leads_over_another_one(desk):
    desk.put("a", b"")
    run(desk, "mkdir -p conf/vs; echo evil > conf/vs/tasks.json; ln -s conf step; ln -s step/vs .vscode; echo x > a")
    assert red(desk) == {".vscode", "conf/vs/tasks.json"}
    desk.shadow.resolve("")
    assert (desk.disk("a"), desk.disk("conf/vs/tasks.json")) == (b"x\n", None)


@needs_mounts
@pytest.mark.parametrize(
    ("links", "named"),
    [
        ("mkdir -p deep/a/b; ln -s ../../.. deep/a/b/c; ln -s deep/a/b/c/.. out", "out"),
        ("mkdir -p deep/a/b; ln -s ../../.. deep/a/b/c; ln -s deep/a/b/c/.git/hooks in", "in"),
        ("mkdir d; ln -s ../.git d/one; ln -s d/one/hooks two", "two"),
        ("ln -s .git g", "g"),
        ("ln -s .GIT/hooks g", "g"),
        ("ln -s loop loop", "loop"),
    ],
)
def test_n9_a_link_that_leads_out_or_into_git_over_others_is_red(desk, links, named):
    git(desk, "init", "-q")
    run(desk, links)
    assert named in red(desk)


@needs_mounts
def test_n9_a_link_within_the_project_is_not(desk):
    desk.put("src/a.py", b"")
    run(desk, "ln -s src/a.py b; mkdir d; ln -s ../src d/s; ln -s d/s/a.py c; ln -s nowhere n")
    assert red(desk) == set()


@needs_mounts
def test_n9_what_acts_by_itself_is_reviewed_though_git_ignores_it(desk):
    git(desk, "init", "-q")
    desk.put(".gitignore", b".envrc\n.vscode/\nlocal/\nnode_modules/\n")
    run(
        desk,
        "echo evil > .envrc; mkdir -p .vscode local node_modules/m/.vscode; echo evil > .vscode/tasks.json;"
        "echo evil > local/CLAUDE.md; echo x > local/data; echo x > node_modules/m/.vscode/settings.json",
    )
    assert red(desk) == {".envrc", ".vscode/tasks.json", "local/CLAUDE.md"}
    assert {bulk.root: bulk.files for bulk in desk.state.bulks if bulk.files} == {"local": 1, "node_modules": 1}


@needs_mounts
@pytest.mark.parametrize("made", ["git init -q --bare dist/a.git", "git init -q dist/a", "mkdir dist; touch dist/HEAD"])
def test_n9_a_repository_in_what_git_ignores_makes_that_bulk_one_to_confirm(desk, made):
    git(desk, "init", "-q")
    desk.put(".gitignore", b"dist/\n")
    run(desk, made)
    risk = next(bulk.risk for bulk in desk.state.bulks if bulk.root == "dist")
    assert bool(risk) == ("git init" in made)
    assert red(desk) == ({"dist/a/.git/config"} if made.endswith("dist/a") else set())


@pytest.mark.parametrize(("leads_to", "reds"), [("tui", {"tui/config.toml"}), (".", {"tui/config.toml", "a.py"})])
def test_n16_where_the_users_own_settings_lead_into_the_project_they_are_red(monkeypatch, tmp_path, leads_to, reds):
    (tmp_path / "settings").symlink_to(tmp_path / "project" / leads_to)
    monkeypatch.setenv("AGENT_TUI_CONFIG_DIR", str(tmp_path / "settings"))
    desk = Desk(tmp_path)
    desk.shadow.write("tui/config.toml", b"[commands]\npolicy = 'auto'\n")
    desk.shadow.write("a.py", b"")
    assert red(desk) == reds
    assert "settings" in desk.state.changes["tui/config.toml"].risk


@pytest.mark.parametrize(
    ("link", "target", "path"),
    [
        (".git/hooks/pre-commit", "../../scripts/check.sh", "scripts/check.sh"),
        (".git/hooks/post-merge", "{root}/scripts/check.sh", "scripts/check.sh"),
        (".git/hooks", "../scripts", "scripts/pre-push"),
        (".cargo", "conf", "conf/config.toml"),
        (".github", "conf", "conf/workflows/build.yml"),
        ("sub/.github", "../conf", "conf/workflows/build.yml"),
    ],
)
def test_n9_what_a_linked_hook_or_the_beginning_of_a_red_name_leads_to_is_red(desk, link, target, path):
    git(desk, "init", "-q")
    for each in ("scripts/check.sh", "conf/keep", "sub/keep"):
        desk.put(each, b"")
    if link == ".git/hooks":
        shutil.rmtree(desk.root / link)
    (desk.root / link).symlink_to(target.replace("{root}", str(desk.root)))
    desk.shadow.write(path, b"evil")
    desk.shadow.write("sub/other", b"")
    assert red(desk) == {path}
    desk.shadow.resolve("")
    assert desk.disk(path) != b"evil"


def test_n9_a_red_name_is_found_over_one_link_behind_another(desk):
    for each in ("r/keep", "q/keep"):
        desk.put(each, b"")
    (desk.root / "r" / "workflows").symlink_to("../q")
    (desk.root / ".github").symlink_to("r")
    desk.shadow.write("q/build.yml", b"evil")
    assert red(desk) == {"q/build.yml"}


@pytest.mark.parametrize(
    ("name", "value", "path"),
    [
        ("include.path", "../shared.cfg", "shared.cfg"),
        ("includeIf.gitdir:**.path", "../conf/more", "conf/more"),
        ("include.path", "../shared.cfg", "tools/pre-commit"),
        ("filter.strip.clean", "python3 tools/strip.py --quiet", "tools/strip.py"),
        ("diff.x.textconv", "'tools/a b'", "tools/a b"),
        ("core.fsmonitor", "./watch", "watch"),
        ("core.sshCommand", "{root}/tools/ssh -v", "tools/ssh"),
    ],
)
def test_n9_what_the_configuration_of_git_includes_or_runs_is_red(desk, name, value, path):
    git(desk, "init", "-q")
    desk.put("shared.cfg", b"[core]\n\thooksPath = tools\n")
    git(desk, "config", name, value.replace("{root}", str(desk.root)))
    desk.shadow.write(path, b"evil")
    desk.shadow.write("src/other", b"")
    assert red(desk) == {path}


def test_n9_git_is_asked_again_when_a_file_that_it_includes_says_something_else(desk):
    git(desk, "init", "-q")
    desk.put("shared.cfg", b"")
    git(desk, "config", "include.path", "../shared.cfg")
    desk.shadow.write("tools/pre-commit", b"evil")
    assert red(desk) == set()
    desk.put("shared.cfg", b"[core]\n\thooksPath = tools\n")
    desk.shadow.write("src/other", b"")
    assert red(desk) == {"tools/pre-commit"}
