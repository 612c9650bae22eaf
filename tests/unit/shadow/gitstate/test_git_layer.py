"""A state of git is an allow-list: whatever is written below `.git`, only what it names changes, and that is told."""

from __future__ import annotations

import random
import re
import subprocess

import pytest

from core.errors import ReviewConflict
from core.git.index import read_entries
from tests.unit.shadow.overlay_mount import needs_mounts, run
from tests.unit.shadow.review_case import ReviewCase

pytestmark = needs_mounts
GIT = "git -c user.name=t -c user.email=t@example.org -c safe.directory='*'"
ALLOWED = re.compile(
    r"(?:HEAD|index|packed-refs|(?:logs/)?refs/(?:heads|tags|remotes|notes|stash).*|logs/HEAD|objects/.+)\Z"
)
OLD = "$(git rev-parse HEAD~)"
# What takes effect by itself, written by git or by hand: none of it is state, and each is named.
STRANGE = {
    "shallow": "git rev-parse HEAD > .git/shallow",
    "MERGE_HEAD": f"echo {OLD} > .git/MERGE_HEAD; echo x > .git/MERGE_MSG",
    "CHERRY_PICK_HEAD": f"echo {OLD} > .git/CHERRY_PICK_HEAD",
    "REVERT_HEAD": f"echo {OLD} > .git/REVERT_HEAD",
    "FETCH_HEAD": f"echo {OLD} > .git/FETCH_HEAD",
    "ORIG_HEAD": f"echo {OLD} > .git/ORIG_HEAD",
    "BISECT_LOG": f"git bisect start -q HEAD {OLD} >/dev/null 2>&1; git checkout -q main; echo x > .git/BISECT_LOG",
    "info/sparse-checkout": "echo /a.py > .git/info/sparse-checkout",
    "info/grafts": "git rev-parse HEAD > .git/info/grafts",
    "info/exclude": "echo '*.py' >> .git/info/exclude",
    "description": "echo x > .git/description",
    "refs/replace": f"git replace HEAD {OLD}",
    "refs/bisect": "git update-ref refs/bisect/bad HEAD",
    "refs/worktree": "git update-ref refs/worktree/x HEAD",
    "refs/heads/alias": "git symbolic-ref refs/heads/alias refs/heads/side",
    "fsmonitor--daemon": "mkdir -p .git/fsmonitor--daemon; echo x > .git/fsmonitor--daemon/cookie",
    "modules": "mkdir -p .git/modules/m; echo x > .git/modules/m/HEAD",
    "worktrees": "mkdir -p .git/worktrees/w; echo x > .git/worktrees/w/HEAD",
    "lfs": "mkdir -p .git/lfs/objects; echo x > .git/lfs/objects/x",
    "rr-cache": "mkdir -p .git/rr-cache/x; echo x > .git/rr-cache/x/postimage",
    "unheard-of": "echo x > .git/unheard-of",
}
PLAIN = (
    "git branch extra HEAD~",
    "git tag v1 HEAD~",
    "git checkout -q side",
    "git symbolic-ref HEAD refs/heads/side",
    "git symbolic-ref HEAD refs/heads/unborn",
    "git checkout -q --detach",
    "git reset -q --soft HEAD~",
    "git branch -D -q side",
    "git pack-refs --all",
    "git gc -q",
    "git rm -q --cached b.py",
    "git update-index --chmod=+x b.py",
    "git update-index --split-index",
    "git update-index --untracked-cache",
    "git update-index --assume-unchanged a.py",
    "git update-index --skip-worktree b.py",
    "echo x > new.py; git add -N new.py",
    f"{GIT} commit -q --allow-empty -m empty",
    "git update-ref refs/remotes/origin/main HEAD; git symbolic-ref refs/remotes/origin/HEAD refs/remotes/origin/main",
    "rm -rf .git/logs",
    "chmod -R o+w .git/refs",
)


def on_disk(review: ReviewCase, command: str) -> str:
    done = subprocess.run(["sh", "-ec", command], cwd=review.root, check=True, capture_output=True, text=True)
    return done.stdout


@pytest.fixture
def project(review):
    review.put("a.py", b"x = 1\n")
    review.put("b.py", b"y = 1\n")
    on_disk(review, f"git init -q -b main; git add .; {GIT} commit -qm one; git branch side; git tag old")
    on_disk(
        review, f"{GIT} commit -q --allow-empty -m two; git pack-refs --all; {GIT} commit -q --allow-empty -m three"
    )
    return review


def snapshot(review: ReviewCase) -> dict[str, tuple[bytes, int]]:
    top = review.root / ".git"
    files = (path for path in top.rglob("*") if path.is_file())
    return {path.relative_to(top).as_posix(): (path.read_bytes(), path.stat().st_mode) for path in files}


def references(review: ReviewCase) -> dict[str, str]:
    listed = on_disk(review, "git for-each-ref --format='%(refname) %(objectname) %(symref)'")
    return dict(line.split(" ", 1) for line in listed.splitlines())


def assert_told(review: ReviewCase) -> None:
    """Accept the state of git: what has changed is allowed to, and stands in the preview."""
    before, old_references, head = snapshot(review), references(review), (review.root / ".git/HEAD").read_text()
    preview = review.shadow.bulks.git.preview(".git")
    if preview.refused:
        with pytest.raises(ReviewConflict):
            review.shadow.resolve_bulk(".git")
        assert snapshot(review) == before
        return
    review.shadow.resolve_bulk(".git")
    after = snapshot(review)
    changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    assert {path for path in changed if not ALLOWED.match(path)} == set()
    now = references(review)
    starts = {line.partition(":")[0] for line in preview.moves}
    assert {name for name in old_references.keys() | now.keys() if old_references.get(name) != now.get(name)} <= starts
    if head != (review.root / ".git/HEAD").read_text():
        assert "HEAD" in starts
    if "index" in changed:
        assert starts & {"Staged", "The index, as HEAD will be"}
    if "No reference moves: only the staged content changes." in preview.moves:
        assert {path for path in changed if not path.startswith("objects/")} == {"index"}
    assert_plain_index(review)
    on_disk(review, "git fsck --strict --no-dangling; git status")


def assert_plain_index(review: ReviewCase) -> None:
    data = (review.root / ".git/index").read_bytes()
    entries = read_entries(data, 20)
    assert not any(entry.flags & 0x8000 or entry.extended & 0x4000 for entry in entries)
    assert b"link" not in data[-200:]
    assert b"UNTR" not in data


@pytest.mark.parametrize("name", STRANGE)
def test_n22_what_is_no_state_is_left_out_by_name(project, name):
    before = snapshot(project)
    run(project, STRANGE[name])
    preview = project.shadow.bulks.git.preview(".git")
    assert (preview.refused, preview.moves) == ("", ("Nothing changes in your repository.",))
    assert name in preview.notes[-1]
    assert name in project.shadow.resolve_bulk(".git").excerpt
    assert snapshot(project) == before


@pytest.mark.parametrize("command", PLAIN)
def test_n22_what_is_state_is_told(project, command):
    run(project, command)
    if project.state.bulks:
        assert_told(project)


@pytest.mark.parametrize("seed", range(10))
def test_n22_whatever_is_written_only_what_is_listed_changes_and_all_of_it_is_told(project, seed):
    choice = random.Random(seed)
    commands = [*choice.sample(list(STRANGE.values()), 3), *choice.sample(PLAIN, 4)]
    choice.shuffle(commands)
    run(project, " ".join(f"{{ {command}; }} || true;" for command in commands))
    assert project.state.bulks
    assert_told(project)


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("git symbolic-ref HEAD refs/heads/side", r"HEAD: branch main \(\w{10}\) → branch side \(\w{10}\)"),
        ("git checkout -q --detach", r"HEAD: branch main \(\w{10}\) → commit \w{10}, on no branch"),
        ("git symbolic-ref HEAD refs/heads/unborn", r"HEAD: branch main \(\w{10}\) → branch unborn \(no commit yet\)"),
        ("git tag -d old >/dev/null", r"refs/tags/old: \w{10} → removed"),
    ],
)
def test_n22_where_head_and_references_go_is_said_in_words(project, command, told):
    run(project, command)
    assert any(re.fullmatch(told, move) for move in project.shadow.bulks.git.preview(".git").moves)
    assert_told(project)


def test_n22_a_cached_tree_in_the_index_is_in_no_later_commit(project):
    forged = (
        "import hashlib;d=open('.git/index','rb').read()[:-20];at=d.index(b'TREE');"
        "d=d[:at]+b'TREE'+(27).to_bytes(4,'big')+b'\\0002 0\\n'+bytes.fromhex('{}');"
        "open('.git/index','wb').write(d+hashlib.sha1(d).digest())"
    )
    run(
        project,
        f"git rm -q --cached b.py; t=$(git write-tree); git add b.py; git write-tree >/dev/null;"
        f'git update-index --chmod=+x b.py; git write-tree > /dev/null; python3 -c "{forged.format("$t")}"',
    )
    project.shadow.resolve_bulk(".git")
    assert b"TREE" not in (project.root / ".git/index").read_bytes()
    on_disk(project, f"{GIT} commit -qm mine")
    assert on_disk(project, "git ls-tree --name-only HEAD").split() == ["a.py", "b.py"]


def test_n22_marks_and_file_status_of_the_user_stay(project):
    on_disk(project, "git update-index --assume-unchanged a.py; git update-index --skip-worktree b.py; git status")
    run(
        project,
        "git update-index --no-assume-unchanged a.py; git update-index --no-skip-worktree b.py;"
        "git update-index --add --cacheinfo 100644,$(git rev-parse HEAD:a.py),c.py",
    )
    notes = project.shadow.bulks.git.preview(".git").notes
    assert any("which files git looks at; that is undone: a.py, b.py" in note for note in notes)
    project.shadow.resolve_bulk(".git")
    assert on_disk(project, "git ls-files -v").split("\n")[:3] == ["h a.py", "S b.py", "H c.py"]


def test_n22_the_end_of_what_is_under_way_in_the_project_is_left_to_the_user(project):
    on_disk(project, f"echo {OLD} > .git/MERGE_HEAD")
    run(project, f"{GIT} commit -qm merge")
    assert "MERGE_HEAD" in project.shadow.bulks.git.preview(".git").refused
    assert_told(project)
