"""Accepting git's state: what the user did not accept is in none of it."""

from __future__ import annotations

import hashlib
import subprocess
import zlib

import pytest

from core.errors import ReviewConflict
from tests.support.verdicts import accept_everything, reject_everything
from tests.unit.shadow.overlay_mount import needs_mounts, run
from tests.unit.shadow.review_case import ReviewCase

pytestmark = needs_mounts
GIT = "git -c user.name=Agent -c user.email=a@example.org -c safe.directory='*'"
LINES = [f"line {number}\n" for number in range(30)]
EVIL = "REJECTED-CONTENT"


def on_disk(review: ReviewCase, command: str) -> str:
    done = subprocess.run(["sh", "-c", command], cwd=review.root, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def everything_in_git(review: ReviewCase) -> bytes:
    """The content of every object that the repository has, and every file of its directory."""
    asked = ["git", "cat-file", "--batch-all-objects", "--batch", "--unordered"]
    objects = subprocess.run(asked, cwd=review.root, check=True, capture_output=True).stdout
    return objects + b"".join(path.read_bytes() for path in (review.root / ".git").rglob("*") if path.is_file())


def assert_clean(review: ReviewCase) -> None:
    assert EVIL.encode() not in everything_in_git(review)
    on_disk(review, "git fsck --strict --no-dangling")


@pytest.fixture
def project(review):
    review.put("a.py", "".join(LINES).encode())
    review.put("b.py", b"b = 1\n")
    on_disk(review, f"git init -q -b main; git add .; {GIT} commit -qm first")
    return review


def two_hunks(review: ReviewCase) -> None:
    """The first is fine, the second is to be rejected."""
    lines = list(LINES)
    lines[2], lines[25] = "good\n", f"{EVIL}\n"
    review.shadow.write("a.py", "".join(lines).encode())


def judge_halves(review: ReviewCase) -> None:
    good, evil = review.ids("a.py")
    review.shadow.resolve("a.py", (good,))
    review.shadow.resolve("a.py", (evil,), "reject")


def half_accepted(review: ReviewCase, command: str) -> None:
    """Two hunks wait while the command puts them into git; then the first is accepted and the second rejected."""
    two_hunks(review)
    run(review, command)
    judge_halves(review)


def assert_refused(review: ReviewCase, why: str) -> None:
    with pytest.raises(ReviewConflict, match=why):
        review.shadow.resolve_bulk(".git")
    assert_clean(review)


def log(review: ReviewCase) -> list[str]:
    return on_disk(review, "git log --format=%s").split()


@pytest.fixture
def forked(project):
    """A branch `side` that has another line in a.py, while main has another b.py."""
    on_disk(
        project,
        f"git checkout -qb side; echo side >> a.py; {GIT} commit -qam side; git checkout -q main;"
        f"echo 2 > b.py; {GIT} commit -qam main",
    )
    return project


def test_n5_a_rejected_hunk_is_not_in_the_commit_that_is_accepted(project):
    half_accepted(
        project,
        f"{GIT} commit -qam 'Improve a\n\nWith a body.' --author='Ann <ann@example.org>' --date='2001-02-03T04:05:06'",
    )
    record = project.shadow.resolve_bulk(".git")
    assert "made again" in record.excerpt
    assert on_disk(project, "git log -1 --format='%an %ad %s %b' --date=short").split("\n")[0] == (
        "Ann 2001-02-03 Improve a With a body."
    )
    assert on_disk(project, "git show HEAD:a.py") == (project.root / "a.py").read_text()
    assert on_disk(project, "git rev-list --count HEAD; git status --short").split() == ["2"]
    assert_clean(project)


def test_n5_a_commit_of_which_nothing_was_accepted_is_left_out_and_what_it_brought_stays_away(project):
    head = on_disk(project, "git rev-parse HEAD")
    project.shadow.write("a.py", EVIL.encode())
    run(project, f"{GIT} commit -qam evil -v")
    project.shadow.resolve("a.py", (), "reject")
    project.shadow.resolve_bulk(".git")
    assert on_disk(project, "git rev-parse HEAD; git status --short") == head
    assert_clean(project)


def test_n5_what_waits_is_to_be_decided_first(project):
    project.shadow.write("a.py", EVIL.encode())
    run(project, f"{GIT} commit -qam evil")
    with pytest.raises(ReviewConflict, match=r"a\.py is pending in the review"):
        project.shadow.resolve_bulk(".git")
    assert project.state.bulks
    assert_clean(project)


def test_n5_of_several_commits_only_what_was_accepted_is_in_any(project):
    run(
        project,
        f"echo '{EVIL}' >> a.py; {GIT} commit -qam one; git checkout -q HEAD~ -- a.py; echo 'fine' >> a.py;"
        f"{GIT} commit -qam two; echo new > c.py; git add .; {GIT} commit -qm three",
    )
    project.shadow.resolve("a.py")
    project.shadow.resolve("c.py")
    project.shadow.resolve_bulk(".git")
    assert log(project) == ["three", "one", "first"]
    assert on_disk(project, "git status --short; git show HEAD:c.py HEAD:a.py | tail -1") == "fine\n"
    assert_clean(project)


@pytest.mark.parametrize(
    ("command", "named"),
    [
        (f"echo {EVIL} >> a.py; {GIT} stash -q", "refs/stash"),
        (
            f"git checkout -qb side; echo {EVIL} >> a.py; {GIT} commit -qam side; git checkout -q main",
            "refs/heads/side",
        ),
        (f"echo {EVIL} >> a.py; {GIT} commit -qam x; {GIT} tag -a v1 -m v1; git reset -q --hard HEAD~", "refs/tags/v1"),
        (f"echo {EVIL} >> a.py; {GIT} commit -qam x; git tag v2; git reset -q --hard HEAD~", "refs/tags/v2"),
        (f"{GIT} notes add -m {EVIL}", "refs/notes/commits"),
        (f"git tag blob $(echo {EVIL} | git hash-object -w --stdin)", "refs/tags/blob"),
        ("git update-ref refs/x/tree $(git write-tree)", "refs/x/tree"),
    ],
)
def test_n5_a_stash_a_branch_a_tag_and_notes_with_content_that_was_never_accepted_are_refused(project, command, named):
    before = on_disk(project, "git for-each-ref; git rev-parse HEAD")
    run(project, command)
    reject_everything(project.shadow)
    with pytest.raises(ReviewConflict, match=named):
        project.shadow.resolve_bulk(".git")
    assert on_disk(project, "git for-each-ref; git rev-parse HEAD") == before
    assert_clean(project)


def test_n5_the_refusal_names_commit_and_file(project):
    run(project, f"git checkout -qb side; echo {EVIL} >> a.py; {GIT} commit -qam Sidestep; git checkout -q main")
    with pytest.raises(
        ReviewConflict, match=r"“Sidestep” \(refs/heads/side\) has a\.py in another version than you accepted"
    ):
        project.shadow.resolve_bulk(".git")


def test_n5_a_branch_and_a_light_tag_go_with_the_commit_that_is_made_again(project):
    half_accepted(project, f"git checkout -qb topic; {GIT} commit -qam good; git tag v1; git branch other")
    project.shadow.resolve_bulk(".git")
    heads = on_disk(project, "git rev-parse HEAD topic v1 other; git symbolic-ref HEAD").split()
    assert (len(set(heads[:4])), heads[4]) == (1, "refs/heads/topic")
    assert_clean(project)


def test_n5_a_tag_with_a_message_on_such_a_commit_is_refused(project):
    half_accepted(project, f"{GIT} commit -qam good; {GIT} tag -a v1 -m v1")
    assert_refused(project, "refs/tags/v1")


def test_n5_a_stash_on_top_of_a_commit_that_is_made_again_is_refused(project):
    half_accepted(project, f"{GIT} commit -qam good; echo x > new; git add new; {GIT} stash -q; echo x > new")
    project.shadow.resolve("new")
    assert_refused(project, "can't be accepted")


def test_n5_what_was_staged_and_rejected_is_taken_out_of_the_index(project):
    half_accepted(project, "echo b2 > b.py; echo c > c.py; git add .")
    project.shadow.resolve("b.py")
    project.shadow.resolve("c.py", (), "reject")
    record = project.shadow.resolve_bulk(".git")
    assert "a.py, c.py" in record.excerpt
    assert on_disk(project, "git status --short").splitlines() == [" M a.py", "M  b.py"]
    assert_clean(project)


@pytest.mark.parametrize("is_rejected", [True, False])
def test_n5_an_older_version_that_was_staged_and_not_accepted_is_taken_out_of_the_index(project, is_rejected):
    on_disk(project, f"echo 'b = 2' > b.py; {GIT} commit -qam second")
    run(project, "git checkout -q HEAD~ -- b.py; echo note > .git/description")
    if is_rejected:
        project.shadow.resolve("b.py", (), "reject")
    assert "b.py" in project.shadow.resolve_bulk(".git").excerpt
    assert on_disk(project, "git diff --cached --name-only; cat b.py") == "b = 2\n"


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("git rm -q --cached b.py", "no longer tracked, but still on disk: b.py"),
        ("git read-tree --empty", "no longer tracked, but still on disk: a.py, b.py"),
        ("rm .git/index", "no longer tracked, but still on disk: a.py, b.py"),
        ("git update-index --chmod=+x b.py", "staged in another version than on disk: b.py"),
        (
            "git update-index --cacheinfo 100644,$(git rev-parse HEAD:a.py),b.py",
            ("staged in another version than on disk: b.py"),
        ),
    ],
)
def test_n5_what_is_staged_and_nowhere_in_the_review_is_told_before(project, command, told):
    run(project, command)
    assert told in project.shadow.bulks.git.preview(".git").notes
    assert told in project.shadow.resolve_bulk(".git").excerpt


def test_n5_what_git_complains_of_is_one_line(project):
    run(project, "printf 'x\\ny\\n' > .git/index")
    refused = project.shadow.bulks.git.preview(".git").refused
    assert "index" in refused
    assert "\n" not in refused
    assert "hint:" not in refused


def test_n5_nothing_is_told_of_what_is_staged_as_it_was_accepted(project):
    run(project, "git rm -q b.py; echo x > new; git add new; chmod +x a.py; git add a.py")
    accept_everything(project.shadow)
    for path in list(project.state.changes):
        project.shadow.resolve(path)
    assert project.shadow.bulks.git.preview(".git").notes == ()


@pytest.mark.parametrize("mark", ["--assume-unchanged", "--skip-worktree"])
def test_n5_git_goes_on_looking_at_every_file(project, mark):
    on_disk(project, "git update-index --skip-worktree b.py")
    run(project, f"git update-index {mark} a.py")
    assert project.shadow.bulks.git.preview(".git").notes == (
        "commands changed which files git looks at; that is undone: a.py",
    )
    project.shadow.resolve_bulk(".git")
    on_disk(project, "echo more >> a.py; echo more >> b.py")
    assert on_disk(project, "git status --short") == " M a.py\n"


def test_n5_what_no_reference_leads_to_any_more_stays_away(project):
    run(
        project,
        f"echo {EVIL} >> b.py; {GIT} commit -qam draft; echo fine > b.py; {GIT} commit -qa --amend -m final;"
        f"echo {EVIL} | git hash-object -w --stdin; {GIT} stash list",
    )
    project.shadow.resolve("b.py")
    project.shadow.resolve_bulk(".git")
    assert log(project) == ["final", "first"]
    assert on_disk(project, "git reflog --format=%gs | head -1").startswith("commit (amend): final")
    assert_clean(project)


def test_n5_everything_packed_anew_is_taken_over_without_a_loss(project):
    on_disk(project, "echo lost | git hash-object -w --stdin > ../lost")
    run(project, f"echo 2 > b.py; {GIT} commit -qam two; git gc -q --prune=now")
    project.shadow.resolve("b.py")
    project.shadow.resolve_bulk(".git")
    assert on_disk(project, "git log --format=%s; git status --short").split() == ["two", "first"]
    assert on_disk(project, "git cat-file -p $(cat ../lost)") == "lost\n"
    assert_clean(project)
    project.shadow.undo()
    assert log(project) == ["first"]


def test_n5_a_rejected_deletion_is_not_in_the_commit(project):
    run(project, f"git rm -q a.py; echo 2 > b.py; {GIT} commit -qam two")
    project.shadow.resolve("a.py", (), "reject")
    project.shadow.resolve("b.py")
    project.shadow.resolve_bulk(".git")
    assert on_disk(project, "git ls-tree --name-only HEAD; git status --short").split() == ["a.py", "b.py"]


def test_n5_a_merge_that_brought_what_was_rejected_is_refused(forked):
    run(forked, f"{GIT} merge -q --no-edit side")
    forked.shadow.resolve("a.py", (), "reject")
    with pytest.raises(ReviewConflict, match=r"HEAD would have a\.py in another version than you accepted"):
        forked.shadow.resolve_bulk(".git")


def test_n5_a_merge_and_a_move_back_are_taken_over_as_they_are(forked):
    run(forked, f"{GIT} merge -q --no-edit side")
    forked.shadow.resolve("a.py")
    forked.shadow.resolve_bulk(".git")
    assert on_disk(forked, "git rev-list --count HEAD; git status --short").split() == ["4"]
    run(forked, "git reset -q --soft HEAD~2")
    forked.shadow.resolve_bulk(".git")
    assert on_disk(forked, "git rev-list --count HEAD; git status --short").split() == ["1", "M", "a.py", "M", "b.py"]
    assert_clean(forked)


def test_n5_an_object_that_is_not_what_its_name_says_is_not_there(project):
    project.shadow.write("b.py", b"honest\n")
    name = hashlib.sha1(b"blob 7\0honest\n").hexdigest()
    forged = zlib.compress(b"blob %d\0%s" % (len(EVIL), EVIL.encode())).hex()
    run(
        project,
        f"{GIT} commit -qam two; chmod -R u+w .git/objects;"
        f"python3 -c \"open('.git/objects/{name[:2]}/{name[2:]}', 'wb').write(bytes.fromhex('{forged}'))\"",
    )
    project.shadow.resolve("b.py")
    with pytest.raises(ReviewConflict):
        project.shadow.resolve_bulk(".git")
    assert_clean(project)


def test_n5_a_rebase_under_way_is_refused(project):
    on_disk(project, f"git checkout -qb side; echo s >> b.py; {GIT} commit -qam side; git checkout -q main")
    on_disk(project, f"echo m >> b.py; {GIT} commit -qam main")
    run(project, f"{GIT} rebase side || true")
    reject_everything(project.shadow)
    with pytest.raises(ReviewConflict, match="rebase"):
        project.shadow.resolve_bulk(".git")


def test_n5_undoing_brings_the_commit_of_the_agent_back_to_the_review(project):
    half_accepted(project, f"{GIT} commit -qam good")
    before = project.files()
    project.shadow.resolve_bulk(".git")
    project.shadow.undo()
    assert project.files() == before
    assert [bulk.root for bulk in project.state.bulks] == [".git"]
    project.shadow.undo()
    project.shadow.resolve("a.py")
    record = project.shadow.resolve_bulk(".git")
    assert "made again" not in record.excerpt
    assert EVIL.encode() in everything_in_git(project)


def test_n5_a_repository_inside_and_a_new_one_are_held_to_the_same(project):
    run(project, f"git init -q sub; cd sub; echo {EVIL} > x; git add x; {GIT} commit -qm sub")
    waiting = {bulk.root for bulk in project.state.bulks}
    assert waiting == {"sub/.git"}
    project.shadow.resolve("sub/x", (), "reject")
    project.shadow.resolve_bulk("sub/.git")
    content = b"".join(path.read_bytes() for path in (project.root / "sub").rglob("*") if path.is_file())
    assert EVIL.encode() not in content


def test_n5_the_preview_shows_commits_with_message_and_diff_and_what_becomes_of_them(project):
    two_hunks(project)
    run(project, f"{GIT} commit -qam 'Improve a'; git tag v1")
    waits = project.shadow.bulks.git.preview(".git")
    assert "a.py is pending in the review" in waits.refused
    judge_halves(project)
    before = project.files()
    preview = project.shadow.bulks.git.preview(".git")
    assert (preview.refused, preview.commits) == ("", 1)
    assert "Improve a" in preview.text
    assert EVIL not in preview.text  # what is asked about is what will be
    assert f"commit {preview.moves[0].rpartition(' ')[2]}" in preview.text
    assert [move.split(":")[0] for move in preview.moves] == [
        *["HEAD", "refs/heads/main", "refs/tags/v1"],
        "The index, as HEAD will be",
    ]
    assert "made again" in preview.notes[0]
    assert project.files() == before


def test_n5_what_was_made_ready_before_the_verdict_counts_only_while_nothing_has_changed(project):
    half_accepted(project, f"{GIT} commit -qam good")
    ready = project.shadow.bulks.prepare(".git")
    assert "made again" in ready.notes[0]
    project.shadow.undo()
    project.shadow.resolve("a.py")
    record = project.shadow.resolve_bulk(".git", ready=ready)
    assert "made again" not in record.excerpt
    assert on_disk(project, "git show HEAD:a.py") == (project.root / "a.py").read_text()


def test_n5_what_was_made_ready_for_nothing_leaves_nothing(project):
    half_accepted(project, f"{GIT} commit -qam good")
    before = sorted(project.shadow.layers.location.iterdir())
    ready = project.shadow.bulks.prepare(".git")
    on_disk(project, f"echo mine > mine; git add mine; {GIT} commit -qm mine")
    with pytest.raises(ReviewConflict, match="changed in the project"):
        project.shadow.resolve_bulk(".git", ready=ready)
    assert project.shadow.bulks.prepare(".git") is None
    assert sorted(project.shadow.layers.location.iterdir()) == before


def test_n5_git_s_refusal_is_said_before_the_verdict_and_leaves_nothing(project):
    project.shadow.write("a.py", EVIL.encode())
    run(project, f"{GIT} commit -qam evil")
    before = sorted(project.shadow.layers.location.iterdir())
    with pytest.raises(ReviewConflict, match=r"a\.py is pending in the review"):
        project.shadow.bulks.prepare(".git")
    assert sorted(project.shadow.layers.location.iterdir()) == before
    assert project.shadow.layers.open_layers == ()
