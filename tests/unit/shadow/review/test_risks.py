"""What acts by itself because of what stands around it is protected, whatever its name, and never accepted in bulk."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tests.support.verdicts import accept_everything
from tests.unit.shadow.overlay_mount import needs_mounts, run
from tests.unit.shadow.review_case import ReviewCase


def list_protected(review) -> set[str]:
    return {path for path, change in review.state.changes.items() if change.protected}


def git(review, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=review.root, check=True, capture_output=True)


@pytest.mark.parametrize("place", ["", "fixtures/deep/repo/"])
def test_n9_a_directory_becomes_a_repository_with_its_last_part(review, place):
    review.shadow.write(f"{place}config", b"[core]\n\tfsmonitor = evil\n")
    review.shadow.write(f"{place}objects/pack/x", b"")
    review.shadow.write(f"{place}HEAD", b"ref: refs/heads/main\n")
    assert list_protected(review) == set()
    review.shadow.write(f"{place}refs/heads/x", b"")
    review.shadow.write("src/a.py", b"")
    assert list_protected(review) == {f"{place}{name}" for name in ("config", "objects/pack/x", "HEAD", "refs/heads/x")}
    assert "for a repository" in review.state.changes[f"{place}config"].risk
    accept_everything(review.shadow)
    assert review.disk(f"{place}config") is None
    assert review.disk("src/a.py") == b""


def test_n21_an_edit_that_adds_what_cannot_be_seen_is_protected_and_left_by_accept_all(review):
    review.shadow.write("shop.py", b'NAME = "shop"\x1b]0;";evil()#\x07\n')
    review.shadow.write("plain.py", "x = 1  # ⚠️ naïve отчёт 👨\u200d💻\n".encode())
    review.shadow.write("filler.js", "const {a, \u3164} = b\n".encode())
    assert list_protected(review) == {"shop.py", "filler.js"}
    assert review.state.changes["shop.py"].risk == "holds characters that can't be seen: U+001B, U+0007"
    accept_everything(review.shadow)
    assert review.disk("shop.py") is None
    assert review.disk("plain.py") is not None


def test_n9_a_repository_that_is_there_keeps_what_is_changed_in_it_protected(review):
    git(review, "init", "-q", "--bare", "fixture.git")
    review.shadow.write("fixture.git/config", b"[core]\n\tfsmonitor = evil\n")
    assert list_protected(review) == {"fixture.git/config"}


@pytest.mark.parametrize(
    ("name", "value"), [("a", "tools/hooks"), ("b", "./tools/hooks/"), ("c", "{root}/tools/hooks")]
)
def test_n9_the_directory_that_hooks_are_taken_from_is_protected(review, name, value):
    git(review, "init", "-q")
    git(review, "config", "core.hooksPath", value.replace("{root}", str(review.root)))
    review.shadow.write("tools/hooks/pre-commit", b"evil")
    review.shadow.write("tools/other", b"")
    assert list_protected(review) == {"tools/hooks/pre-commit"}


def test_n9_also_where_the_user_named_it_for_all_repositories(review, monkeypatch, tmp_path):
    git(review, "init", "-q")
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".gitconfig").write_text("[core]\n\thooksPath = .hooks-of-mine\n")
    review.shadow.write(".hooks-of-mine/pre-commit", b"evil")
    assert list_protected(review) == {".hooks-of-mine/pre-commit"}


def test_n9_also_where_the_repository_lies_above_the_project(tmp_path):
    review = ReviewCase(tmp_path / "repository")
    top = tmp_path / "repository"
    subprocess.run(["git", "init", "-q"], cwd=top, check=True)
    below = review.root.relative_to(top)
    review.shadow.write("tools/hooks/pre-commit", b"evil")
    assert list_protected(review) == set()
    git(review, "config", "core.hooksPath", f"{below}/tools/hooks")
    review.shadow.write("tools/other", b"")
    assert list_protected(review) == {"tools/hooks/pre-commit"}


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
def test_n9_what_lies_behind_a_link_of_a_protected_name_is_protected(review, link, target, path):
    review.put("conf/vs/settings.json", b"{}")
    review.put("docs/x", b"")
    review.put("sub/keep", b"")
    (review.root / link).parent.mkdir(exist_ok=True)
    (review.root / link).symlink_to(target)
    if link.startswith("sub/"):
        review.shadow.write("sub/other.py", b"")
    review.shadow.write(path, b"evil")
    assert path in list_protected(review)
    assert "sub/other.py" not in list_protected(review)
    assert "as well" in review.state.changes[path].risk


@needs_mounts
def test_n9_also_when_the_link_is_pending_and_leads_over_another_one(review):
    review.put("a", b"")
    run(review, "mkdir -p conf/vs; echo evil > conf/vs/tasks.json; ln -s conf step; ln -s step/vs .vscode; echo x > a")
    assert list_protected(review) == {".vscode", "conf/vs/tasks.json"}
    accept_everything(review.shadow)
    assert (review.disk("a"), review.disk("conf/vs/tasks.json")) == (b"x\n", None)


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
def test_n9_a_link_that_leads_out_or_into_git_over_others_is_protected(review, links, named):
    git(review, "init", "-q")
    run(review, links)
    assert named in list_protected(review)


@needs_mounts
def test_n9_a_link_within_the_project_is_not(review):
    review.put("src/a.py", b"")
    run(review, "ln -s src/a.py b; mkdir d; ln -s ../src d/s; ln -s d/s/a.py c; ln -s nowhere n")
    assert list_protected(review) == set()


@needs_mounts
def test_n9_what_acts_by_itself_is_reviewed_though_git_ignores_it(review):
    git(review, "init", "-q")
    review.put(".gitignore", b".envrc\n.vscode/\nlocal/\nnode_modules/\n")
    run(
        review,
        "echo evil > .envrc; mkdir -p .vscode local node_modules/m/.vscode; echo evil > .vscode/tasks.json;"
        "echo evil > local/CLAUDE.md; echo x > local/data; echo x > node_modules/m/.vscode/settings.json",
    )
    assert list_protected(review) == {".envrc", ".vscode/tasks.json", "local/CLAUDE.md"}
    assert {bulk.root: bulk.files for bulk in review.state.bulks if bulk.files} == {"local": 1, "node_modules": 1}


@needs_mounts
@pytest.mark.parametrize("made", ["git init -q --bare dist/a.git", "git init -q dist/a", "mkdir dist; touch dist/HEAD"])
def test_n9_a_repository_in_what_git_ignores_makes_that_bulk_one_to_confirm(review, made):
    git(review, "init", "-q")
    review.put(".gitignore", b"dist/\n")
    run(review, made)
    risk = next(bulk.risk for bulk in review.state.bulks if bulk.root == "dist")
    assert bool(risk) == ("git init" in made)
    assert list_protected(review) == ({"dist/a/.git/config"} if made.endswith("dist/a") else set())


@pytest.mark.parametrize(
    ("leads_to", "protected_paths"), [("tui", {"tui/config.toml"}), (".", {"tui/config.toml", "a.py"})]
)
def test_n16_where_the_users_own_settings_lead_into_the_project_they_are_protected(
    monkeypatch, tmp_path, leads_to, protected_paths
):
    (tmp_path / "settings").symlink_to(tmp_path / "project" / leads_to)
    monkeypatch.setenv("AGENT_TUI_CONFIG_DIR", str(tmp_path / "settings"))
    review = ReviewCase(tmp_path)
    review.shadow.write("tui/config.toml", b"[commands]\npolicy = 'auto'\n")
    review.shadow.write("a.py", b"")
    assert list_protected(review) == protected_paths
    assert "settings" in review.state.changes["tui/config.toml"].risk


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
def test_n9_what_a_linked_hook_or_the_beginning_of_a_protected_name_leads_to_is_protected(review, link, target, path):
    git(review, "init", "-q")
    for existing_path in ("scripts/check.sh", "conf/keep", "sub/keep"):
        review.put(existing_path, b"")
    if link == ".git/hooks":
        shutil.rmtree(review.root / link)
    (review.root / link).symlink_to(target.replace("{root}", str(review.root)))
    review.shadow.write(path, b"evil")
    review.shadow.write("sub/other", b"")
    assert list_protected(review) == {path}
    accept_everything(review.shadow)
    assert review.disk(path) != b"evil"


def test_n9_a_protected_name_is_found_over_one_link_behind_another(review):
    for path in ("r/keep", "q/keep"):
        review.put(path, b"")
    (review.root / "r" / "workflows").symlink_to("../q")
    (review.root / ".github").symlink_to("r")
    review.shadow.write("q/build.yml", b"evil")
    assert list_protected(review) == {"q/build.yml"}


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
def test_n9_what_the_configuration_of_git_includes_or_runs_is_protected(review, name, value, path):
    git(review, "init", "-q")
    review.put("shared.cfg", b"[core]\n\thooksPath = tools\n")
    git(review, "config", name, value.replace("{root}", str(review.root)))
    review.shadow.write(path, b"evil")
    review.shadow.write("src/other", b"")
    assert list_protected(review) == {path}


def test_n9_git_is_asked_again_when_a_file_that_it_includes_says_something_else(review):
    git(review, "init", "-q")
    review.put("shared.cfg", b"")
    git(review, "config", "include.path", "../shared.cfg")
    review.shadow.write("tools/pre-commit", b"evil")
    assert list_protected(review) == set()
    review.put("shared.cfg", b"[core]\n\thooksPath = tools\n")
    review.shadow.write("src/other", b"")
    assert list_protected(review) == {"tools/pre-commit"}
