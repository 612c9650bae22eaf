"""Nothing of a state of git goes unseen: objects are printed whole, and the place of a repository stays one."""

from __future__ import annotations

import re

import pytest

from core.cli.review_output import render_git_preview
from core.errors import ReviewConflict
from core.text.display_names import to_one_line
from tests.support.everyday import tree
from tests.unit.shadow.gitstate.test_git_layer import GIT, on_disk
from tests.unit.shadow.overlay_mount import needs_mounts, run
from tests.unit.shadow.review_case import ReviewCase

pytestmark = needs_mounts
HEADER = r"tree $(git rev-parse HEAD^{tree})\nparent $(git rev-parse HEAD)\n"
PERSONS = r"author A <a@b> 1700000000 +0000\ncommitter A <a@b> 1700000000 +0000\n"


def store(kind: str, text: str, name: str) -> str:
    """A command that stores an object as it is and lets a reference name it."""
    written = f'n=$(printf "{text}" | git hash-object -t {kind} -w --stdin --literally)'
    return f"{written}; git update-ref {name} $n"


@pytest.fixture
def project(review):
    review.put("a.py", b"x = 1\n")
    review.put("infra/a", b"y = 1\n")
    review.put("vendor/lib/v.py", b"v = 1\n")
    on_disk(review, f"git init -q -b main; git add a.py infra; {GIT} commit -qm one")
    on_disk(review, f"cd vendor/lib; git init -q -b main; git add .; {GIT} commit -qm lib")
    return review


def printed(review: ReviewCase) -> str:
    """What `review --print` shows of the state of git."""
    return "\n".join(map(to_one_line, render_git_preview(review.shadow.bulks.git.preview(".git"))))


def accept_each_by_name(review: ReviewCase) -> list[str]:
    """Accept all that waits, each by its name; return what was said against it."""
    refusals = []
    for path in list(review.state.changes):
        if path in review.state.changes:
            try:
                review.shadow.resolve(path)
            except ReviewConflict as refusal:
                refusals.append(refusal.message)
    for bulk in list(review.state.bulks):
        try:
            review.shadow.resolve_bulk(bulk.root)
        except ReviewConflict as refusal:
            refusals.append(refusal.message)
    return refusals


@pytest.mark.parametrize(
    ("commands", "git"),
    [
        (("mv .git real; echo 'gitdir: real' > .git",), ".git"),
        (("mv .git real", "echo 'gitdir: real' > .git"), ".git"),
        (("mv .git real; ln -s real .git",), ".git"),
        (("rm -rf .git",), ".git"),
        (("rm -rf .git; echo > .git",), ".git"),
        (("rm -rf .git; truncate -s 65M .git",), ".git"),
        (("rm -rf vendor; truncate -s 65M vendor",), "vendor/lib/.git"),
        (("echo vendor >> .gitignore; rm -rf vendor",), "vendor/lib/.git"),
        (("mv vendor/lib/.git vendor/real; ln -s ../real vendor/lib/.git",), "vendor/lib/.git"),
        (("rm -rf vendor/lib/.git",), "vendor/lib/.git"),
        (("rm -rf vendor; echo > vendor",), "vendor/lib/.git"),
        (("mv vendor/lib away; ln -s ../away vendor/lib",), "vendor/lib/.git"),
    ],
)
def test_n22_nothing_takes_the_place_of_a_repository(project, commands, git):
    before = tree(project.root / git)
    for command in commands:
        run(project, command)
    refusals = accept_each_by_name(project)
    assert any(f"{git} is the directory of a repository in your project" in refusal for refusal in refusals)
    assert tree(project.root / git) == before
    assert on_disk(project, f"git -C {git.removesuffix('.git') or '.'} log --format=%s").split() == [
        "one" if git == ".git" else "lib"
    ]


def test_n22_no_part_of_a_repository_goes_though_what_replaced_it_was_rejected(project):
    before = tree(project.root / ".git")
    run(project, "mv .git real; echo 'gitdir: real' > .git")
    project.shadow.resolve(".git", (), "reject")
    accept_each_by_name(project)
    assert tree(project.root / ".git") == before


def test_n22_a_file_that_is_the_place_of_a_repository_becomes_no_directory(project):
    on_disk(project, "mv vendor/lib/.git vendor/real; echo 'gitdir: ../real' > vendor/lib/.git")
    run(project, f"cd vendor/lib; rm .git; git init -q; git add .; {GIT} commit -qm other")
    refusals = accept_each_by_name(project)
    assert any("vendor/lib/.git is a file in your project" in refusal for refusal in refusals)
    assert (project.root / "vendor/lib/.git").is_file()


@pytest.mark.parametrize(
    ("command", "lines"),
    [
        (
            store("commit", rf"{HEADER}{PERSONS}x-note run evil\n and more\n\nplain\n", "refs/heads/main"),
            ["Header: x-note run evil", "Header:   and more", "    plain"],
        ),
        (
            store("commit", rf"{HEADER}{PERSONS}gpgsig run evil\n\nplain\n", "refs/heads/main"),
            ["Header: gpgsig run evil"],
        ),
        (
            store("commit", rf"{HEADER}{PERSONS}parent $(git rev-parse HEAD)\n\nplain\n", "refs/heads/main"),
            ["Header: parent "],
        ),
        (
            store("commit", rf"{HEADER}{PERSONS}encoding utf-16\n\nrun: evil\n", "refs/heads/main"),
            ["Author: A <a@b>", "Date:   Tue Nov 14 22:13:20 2023 +0000", "Header: encoding utf-16", "    run: evil"],
        ),
        (
            store("commit", rf"{HEADER}{PERSONS}encoding UTF-7\n\nth+AHIAZQBl-\n", "refs/heads/main"),
            ["    th+AHIAZQBl-", "  Read as UTF-7:", "    three"],
        ),
        (
            store("commit", rf"{HEADER}{PERSONS}encoding latin-1\n\ncaf\\351\n", "refs/heads/main"),
            ["    café"],
        ),
        (
            store("commit", rf"{HEADER}{PERSONS}encoding x-none\n\ncaf\\351\n", "refs/heads/main"),
            ["Header: encoding x-none", "    café"],
        ),
        (store("commit", rf"{HEADER}{PERSONS}\nseen\\0unseen\n", "refs/heads/main"), ["    seen␀unseen"]),
        (
            f"GIT_COMMITTER_NAME=Boss GIT_COMMITTER_EMAIL=b@c GIT_COMMITTER_DATE='1000000000 +0000' {GIT}"
            " commit -q --allow-empty -m m",
            ["Committer: Boss <b@c>", "Committed: Sun Sep 9 01:46:40 2001 +0000"],
        ),
    ],
)
def test_n22_a_commit_is_printed_whole(project, command, lines):
    run(project, command)
    preview_text = printed(project)
    assert [line for line in lines if line not in preview_text] == []
    project.shadow.resolve_bulk(".git")


def test_n22_an_ordinary_commit_is_printed_as_ever(project):
    run(project, f"{GIT} commit -q --allow-empty -m 'Ümlaut'")
    text = project.shadow.bulks.git.preview(".git").text.splitlines()
    assert [line.split(" ")[0] for line in text[:3]] == ["commit", "Author:", "Date:"]
    assert text[3:] == ["", "    Ümlaut"]


def test_n22_a_parent_that_git_does_not_see_vouches_for_nothing(project):
    run(
        project,
        "b=$(echo EVIL | git hash-object -w --stdin); t=$(printf '100644 blob %s\\ta.py\\n' $b | git mktree);"
        f'q=$({GIT} commit-tree -m q $t); n=$(printf "tree $t\\nparent $(git rev-parse HEAD)\\n{PERSONS}'
        'parent $q\\n\\nm\\n" | git hash-object -t commit -w --stdin --literally); git update-ref refs/heads/x $n',
    )
    assert "has a.py" in project.shadow.bulks.git.preview(".git").refused


def test_n22_a_tag_is_printed_with_its_tagger_and_message_and_those_that_it_names(project):
    inner = r"object $(git rev-parse HEAD)\ntype commit\ntag in\ntagger Boss <b@c> 1 +0000\n\nin\\033[2Jner\n"
    outer = r"object $n\ntype tag\ntag out\ntagger Chief <c@d> 1 +0000\nx-note evil\n\nouter\n"
    run(project, f"{store('tag', inner, 'refs/tags/in')}; {store('tag', outer, 'refs/tags/out')}")
    on_disk(project, "true")
    preview_text = printed(project)
    for line in ("Tagger: Boss <b@c>", "    in␛[2Jner", "Tagger: Chief <c@d>", "    outer", "Header: x-note evil"):
        assert line in preview_text
    run(project, "git update-ref -d refs/tags/in")
    assert "Tagger: Boss <b@c>" in printed(project)
    project.shadow.resolve_bulk(".git")


def test_n22_names_of_references_that_look_alike_are_marked(project):
    run(project, "git branch m\u0430in; git branch side; git branch тест")
    preview_text = printed(project)
    assert "refs/heads/m‹а·Cyrillic›in: new" in preview_text
    assert "refs/heads/side: new" in preview_text


def test_n22_what_git_makes_no_reference_of_is_named_as_what_it_is(project):
    run(
        project,
        'n=$(git rev-parse HEAD); printf "$n refs/heads/p\\033[2Jq\\n" >> .git/packed-refs;'
        'printf $n > ".git/refs/heads/n$(printf "\\033")l"; ln -s ../../../a.py .git/refs/heads/link; git branch b',
    )
    preview_text = printed(project)
    for name in ("refs/heads/p␛[2Jq of packed-refs", "refs/heads/n␛l", "refs/heads/link"):
        assert name in preview_text
    assert "refs/heads/b:" in preview_text
    project.shadow.resolve_bulk(".git")
    assert on_disk(project, "ls .git/refs/heads").split() == ["b", "main"]


def test_n22_of_a_log_nothing_comes_that_was_not_seen(project):
    line = r"$(git rev-parse HEAD~) $(git rev-parse HEAD) Forger <f@g> 1 +0000\tev\033[2Jil\n"
    run(
        project,
        f'{GIT} commit -q --allow-empty -m two; printf "{line}" | tee -a .git/logs/HEAD >> .git/logs/refs/heads/main',
    )
    project.shadow.resolve_bulk(".git")
    logs = (project.root / ".git/logs/HEAD").read_bytes() + (project.root / ".git/logs/refs/heads/main").read_bytes()
    assert (b"\x1b" in logs, b"Forger" in logs, logs.count(b"\n")) == (False, False, 4)
    on_disk(project, "git fsck --strict --no-dangling")


def test_n22_a_log_says_what_git_would_where_it_is_seen_and_leads_back(project):
    run(project, f"{GIT} commit -q --allow-empty -m two; git checkout -q -b side")
    project.shadow.resolve_bulk(".git")
    assert on_disk(project, "git reflog main --format=%gs | head -1") == "commit: two\n"
    assert on_disk(project, "git reflog --format=%gs | head -1") == "checkout: moving from main to side\n"
    assert on_disk(project, "git checkout -q -; git branch --show-current") == "main\n"


def test_n22_a_stash_is_described_by_its_commit(project):
    run(
        project,
        f"n=$({GIT} commit-tree -p HEAD -m index HEAD^{{tree}});"
        f"m=$({GIT} commit-tree -p HEAD -p $n -m 'On main: mine' HEAD^{{tree}});"
        f'{GIT} stash store -m "$(printf "ev\\033[2Jil")" $m',
    )
    assert "Entries of the stash: none → " in printed(project)
    project.shadow.resolve_bulk(".git")
    assert on_disk(project, "git stash list") == "stash@{0}: On main: mine\n"
    assert b"\x1b" not in (project.root / ".git/logs/refs/stash").read_bytes()


def test_n22_a_staged_mode_is_said(project):
    run(project, "git update-index --chmod=+x a.py")
    assert "Staged: a.py (changed, mode 100644 → 100755)." in printed(project)


def test_n22_clones_in_what_tools_fill_again_go_with_it(project):
    project.put("node_modules/x/a.js", b"1\n")
    on_disk(project, "git init -q node_modules/x; echo node_modules > .gitignore")
    run(project, "rm -rf node_modules")
    project.shadow.resolve_bulk("node_modules")
    assert not (project.root / "node_modules").exists()


def test_n22_each_entry_of_the_stash_that_goes_is_said(project):
    for number in range(3):
        index = f"$({GIT} commit-tree -p HEAD -m index HEAD^{{tree}})"
        entry = f"$({GIT} commit-tree -p HEAD -p {index} -m {number} HEAD^{{tree}})"
        on_disk(project, f"{GIT} stash store -m {number} {entry}")
    run(project, "git stash drop -q; git stash drop -q")
    entries = re.search("Entries of the stash: (.*) → (.*)", printed(project))
    assert (len(entries[1].split(", ")), len(entries[2].split(", "))) == (3, 1)
    project.shadow.resolve_bulk(".git")
    assert len(on_disk(project, "git stash list").splitlines()) == 1
