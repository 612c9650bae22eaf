"""The version of a commit: the last one's with the accepted edits, whatever the user did beside them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.shadow.commits.path_version import AcceptedEdit, EditClash, PathVersion, apply_edits

ABSENT = PathVersion()
PROGRAM = PathVersion(kind="file", data=b"x", is_executable=True)
# Far apart, so that edits of different places never touch.
PLACES = tuple(range(0, 60, 6))
HEAD = [f"line {number}\n" for number in range(60)]


def file(lines: list[str] | str) -> PathVersion:
    return PathVersion(kind="file", data="".join(lines).encode())


def edit(before: PathVersion, after: PathVersion) -> AcceptedEdit:
    return AcceptedEdit(id="1", path="a", before=before, after=after)


def render(replaced: dict[int, str]) -> list[str]:
    return [f"{replaced[number]} {number}\n" if number in replaced else line for number, line in enumerate(HEAD)]


@given(st.permutations(PLACES), st.integers(0, 10), st.lists(st.integers(1, 3), max_size=6))
def test_accepted_edits_are_in_and_the_users_own_are_not(places, own_count, sizes):
    own, accepted = places[:own_count], places[own_count:]
    disk = dict.fromkeys(own[: own_count // 2], "own")  # before the first hunk was accepted
    edits, at = [], 0
    for size in sizes:
        before = file(render(disk))
        disk |= dict.fromkeys(accepted[at : at + size], "accepted")
        at += size
        edits.append(edit(before, file(render(disk))))
    taken = [place for place, by in disk.items() if by == "accepted"]
    disk |= dict.fromkeys(own, "own")  # and after the last one
    assert apply_edits(file(HEAD), edits, file(render(disk))) == file(render(dict.fromkeys(taken, "accepted")))


@given(st.sets(st.sampled_from(PLACES)), st.sets(st.sampled_from(PLACES)), st.sets(st.sampled_from(PLACES)))
def test_a_commit_never_undoes_what_the_disk_has_of_accepted_lines(accepted, reverted, rewritten):
    after = render(dict.fromkeys(accepted, "accepted"))
    now = dict.fromkeys(accepted - reverted, "accepted") | dict.fromkeys(accepted & rewritten, "rewritten")
    path_version = apply_edits(file(HEAD), [edit(file(HEAD), file(after))], file(render(now)))
    assert path_version == file(render(now))


def test_the_edits_of_one_commit_stand_without_those_of_the_next():
    one, two = render({0: "one"}), render({0: "one", 12: "two"})
    edits = [edit(file(HEAD), file(one)), edit(file(one), file(two))]
    assert apply_edits(file(HEAD), edits[:1], None) == file(one)
    assert apply_edits(file(one), edits[1:], file(two)) == file(two)
    assert apply_edits(file(HEAD), edits[1:], None) == file(render({12: "two"}))


def test_an_edit_on_uncommitted_lines_of_the_user_is_a_clash():
    own, accepted = render({6: "own"}), render({6: "accepted"})
    with pytest.raises(EditClash, match="with your own uncommitted edits"):
        apply_edits(file(HEAD), [edit(file(own), file(accepted))], file(accepted))


def test_lines_right_beside_accepted_ones_stay_the_users():
    accepted = [*HEAD[:5], "accepted\n", *HEAD[6:]]
    disk = [*HEAD[:5], "accepted\n", "own\n", *HEAD[6:]]
    assert apply_edits(file(HEAD), [edit(file(HEAD), file(accepted))], file(disk)) == file(accepted)


@pytest.mark.parametrize(
    ("head", "before", "after", "disk", "expected"),
    [
        (ABSENT, ABSENT, file("new\n"), file("new\n"), file("new\n")),
        (file("old\n"), file("old\n"), ABSENT, ABSENT, ABSENT),
        (file("\0old"), file("\0old"), file("\0new"), file("\0new"), file("\0new")),
        (file("x"), file("x"), PROGRAM, PROGRAM, PROGRAM),
        (file("x"), file("x"), ABSENT, file("x"), file("x")),
        (ABSENT, ABSENT, file("new\n"), ABSENT, ABSENT),
        (file("new\n"), file("old\n"), file("new\n"), file("new\n"), file("new\n")),
    ],
    ids=["created", "removed", "binary", "made a program", "put back", "removed again", "committed by hand"],
)  # fmt: skip
def test_whole_files(head, before, after, disk, expected):
    assert apply_edits(head, [edit(before, after)], disk) == expected


@pytest.mark.parametrize(
    ("head", "before", "after", "disk"),
    [
        (file("\0old"), file("\0other"), file("\0new"), file("\0new")),
        (ABSENT, ABSENT, file("new\n"), PathVersion(kind="symlink", data=b"a")),
        (PathVersion(kind="symlink", data=b"a"), file("x"), file("y"), file("y")),
    ],
    ids=["binary of the user's", "a link instead", "a link in the last commit"],
)
def test_what_can_not_be_told_apart_is_a_clash(head, before, after, disk):
    with pytest.raises(EditClash):
        apply_edits(head, [edit(before, after)], disk)
