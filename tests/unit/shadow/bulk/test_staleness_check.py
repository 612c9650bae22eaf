"""Kept layers never hide what is newer on disk: the user's state of a place wins as a whole, or it is said."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.protocol import events as ev
from core.shadow.bulk.staleness_check import MAX_NEIGHBOURS, OUTPUTS, find_stale_outputs
from core.shadow.layers.merged_tree import MergedTree
from tests.unit.shadow.command_layer import Layer
from tests.unit.shadow.overlay_mount import needs_mounts, output, run
from tests.unit.shadow.review_case import ReviewCase

pytestmark = needs_mounts
GIT = ("git", "-c", "user.name=T", "-c", "user.email=t@example.invalid", "-c", "init.defaultBranch=main")


@pytest.fixture
def project(tmp_path) -> ReviewCase:
    review = ReviewCase(tmp_path)
    review.put(".gitignore", b"deps\n*.log\n__pycache__\n")
    review.put("a.txt", b"one\n")
    return review


def fill(review: ReviewCase, text: str, *names: str) -> None:
    for name in names:
        review.put(f"deps/{name}", f"{text}\n".encode())


def leave(review: ReviewCase, text: str, *names: str) -> None:
    run(review, "; ".join(f"mkdir -p $(dirname deps/{name}); echo {text} > deps/{name}" for name in names))


def seen(review: ReviewCase, directory: str = "deps") -> dict[str, str]:
    """The files in a directory as a command sees them, by path."""
    listed = output(review, f"[ ! -e {directory} ] || find {directory} -type f -exec grep -H '' {{}} +")
    return {path: text for path, _, text in (line.partition(":") for line in listed.splitlines())}


def on_disk(review: ReviewCase, directory: str = "deps") -> dict[str, str]:
    top = review.root / directory
    return {
        str(path.relative_to(review.root)): path.read_text().rstrip("\n") for path in top.rglob("*") if path.is_file()
    }


def stale(review: ReviewCase) -> str:
    return "; ".join(filter(None, (bulk.stale or bulk.conflict for bulk in review.state.bulks)))


def superseded(review: ReviewCase) -> list[str]:
    return [verdict.path for verdict in review.state.verdicts if verdict.superseded]


def notices(review: ReviewCase) -> str:
    return "\n".join(event.message for event in review.events if isinstance(event, ev.Notice))


def test_n29_an_upgrade_of_the_users_is_what_commands_and_tools_see_whole(project):
    leave(project, "v1", "index", "util")
    fill(project, "v2", "index", "util", "extra")
    assert seen(project) == on_disk(project)
    assert project.shadow.read("deps/index") == b"v2\n"
    assert superseded(project) == ["deps"]
    assert "deps was changed in the project" in notices(project)
    assert project.state.bulks == ()


@pytest.mark.parametrize("change", ["edit", "delete", "upgrade", "remove all", "make a directory of it"])
def test_n29_whatever_the_user_does_to_what_a_command_replaced_counts(project, change):
    fill(project, "v0", "index", "lib/util", "lib/other")
    run(project, "echo v1 > deps/index; echo v1 > deps/new; rm deps/lib/util")
    match change:
        case "edit":
            fill(project, "v2", "index")
        case "delete":
            (project.root / "deps/index").unlink()
        case "upgrade":
            fill(project, "v2", "lib/util")
        case "remove all":
            shutil.rmtree(project.root / "deps")
        case _:
            (project.root / "deps/index").unlink()
            fill(project, "v2", "index/part")
    assert seen(project) == on_disk(project)
    assert superseded(project) == ["deps"]


@pytest.mark.parametrize("how", ["rm -rf deps", "rm -rf deps; mkdir -p deps/lib; echo v1 > deps/lib/util"])
@pytest.mark.parametrize("path", ["index", "lib/util", "lib/new", "fresh"])
def test_n29_a_directory_that_a_command_removed_or_made_again_hides_nothing_new(project, how, path):
    fill(project, "v0", "index", "lib/util")
    run(project, how)
    assert seen(project) != on_disk(project)
    fill(project, "v2", path)
    assert seen(project) == on_disk(project)


def test_n29_what_only_changed_beside_it_is_said_once_and_nothing_is_taken_away(project):
    fill(project, "v0", "old", "lib/deep")
    leave(project, "v1", "new")
    fill(project, "v2", "lib/deep")
    project.shadow.follow_project()
    assert "deps/lib/deep changed in the project since" in stale(project)
    assert seen(project)["deps/new"] == "v1"
    assert superseded(project) == []
    changed = [event for event in project.events if isinstance(event, ev.LayersChanged)]
    project.shadow.follow_project()
    assert [event for event in project.events if isinstance(event, ev.LayersChanged)] == changed
    leave(project, "v3", "new")
    assert stale(project) == ""


def test_n29_files_that_only_look_newer_hide_nothing_and_are_compared_once(project, monkeypatch):
    fill(project, "v0", "index")
    leave(project, "v1", "index", "new")
    fill(project, "v0", "index")
    project.shadow.follow_project()
    assert (seen(project)["deps/index"], superseded(project)) == ("v1", [])
    reads = []
    read = MergedTree.read_disk_state
    monkeypatch.setattr(MergedTree, "read_disk_state", lambda *arguments: reads.append(arguments) or read(*arguments))
    since = project.shadow.layers.retained.tops["deps"].since
    project.shadow.follow_project()
    assert (project.shadow.layers.retained.tops["deps"].since, reads) == (since, [])


def test_n29_what_was_set_aside_comes_back_by_an_undo_as_a_conflict_that_stays(project):
    leave(project, "v1", "index")
    fill(project, "v2", "index")
    assert seen(project) == {"deps/index": "v2"}
    project.shadow.undo()
    assert seen(project) == {"deps/index": "v1"}
    assert superseded(project) == []
    assert "changed in the project" in project.state.bulks[0].conflict
    assert on_disk(project) == {"deps/index": "v2"}


def test_n29_caches_give_way_in_silence_and_alone(project):
    run(
        project,
        "mkdir -p __pycache__ deps/__pycache__; echo 1 | tee __pycache__/m deps/__pycache__/n deps/x",
    )
    project.put("__pycache__/m", b"2\n")
    project.put("deps/__pycache__/n", b"2\n")
    assert seen(project, "__pycache__") == {"__pycache__/m": "2"}
    assert seen(project) == {"deps/__pycache__/n": "2", "deps/x": "1"}
    assert (superseded(project), notices(project), [bulk.root for bulk in project.state.bulks]) == ([], "", ["deps"])


def test_n29_of_files_that_are_ignored_by_themselves_only_the_newer_one_gives_way(project):
    run(project, "echo 1 > a.log; echo 1 > b.log")
    project.put("a.log", b"2\n")
    assert output(project, "cat a.log b.log").split() == ["2", "1"]
    assert superseded(project) == ["a.log"]


def test_n29_while_a_command_runs_over_it_nothing_moves_and_it_is_a_conflict_at_once(project):
    leave(project, "v1", "index")
    running = Layer(project)
    fill(project, "v2", "index")
    project.shadow.prepare_lowers()
    assert "deps/index changed in the project" in project.state.bulks[0].conflict
    running.absorb()
    assert seen(project) == {"deps/index": "v2"}


def test_n29_what_the_user_changed_while_the_command_ran_is_not_hidden(project):
    fill(project, "v0", "index")
    layer = Layer(project)
    layer.put("deps/index", b"v1\n")
    fill(project, "v2", "index")
    layer.absorb()
    assert seen(project) == {"deps/index": "v2"}


def test_n29_what_is_pending_is_newer_than_the_users_build_once_that_is_seen(project):
    project.shadow.write("a.txt", b"pending\n")
    leave(project, "v1", "app")
    fill(project, "v2", "app")
    assert output(project, "[ a.txt -nt deps/app ] && echo newer") == "newer\n"


# the state of git


def git(review: ReviewCase, *words: str) -> str:
    return subprocess.run([*GIT, *words], cwd=review.root, check=True, capture_output=True, text=True).stdout


BOXED_GIT = "git -c user.name=T -c user.email=t@example.invalid -c safe.directory='*'"


@pytest.fixture
def repository(project) -> ReviewCase:
    git(project, "init", "-q", ".")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "first")
    return project


AGENTS_WAYS = {
    "stages": "echo agent > b.txt; {git} add b.txt",
    "commits": "echo agent > b.txt; {git} add b.txt; {git} commit -qm agent",
    "commits on a branch": "echo agent > b.txt; {git} switch -qc side; {git} add b.txt; {git} commit -qm agent",
}
USERS_WAYS = {
    "commits": ("commit", "-qam", "user"),
    "commits all": ("commit", "-q", "--allow-empty", "-m", "user"),
    "switches": ("switch", "-qc", "other"),
    "takes back": ("reset", "-q", "--hard", "HEAD~1"),
}


@pytest.mark.parametrize("agents", AGENTS_WAYS)
@pytest.mark.parametrize("users", USERS_WAYS)
def test_n29_a_state_of_git_over_which_the_user_moved_on_is_set_aside(repository, agents, users):
    repository.put("a.txt", b"two\n")
    git(repository, "commit", "-qam", "second")
    run(repository, AGENTS_WAYS[agents].format(git=BOXED_GIT))
    assert ".git" in repository.shadow.layers.retained.tops
    if users == "commits":
        repository.put("a.txt", b"user\n")
    git(repository, *USERS_WAYS[users])
    git_output = output(repository, f"{BOXED_GIT} symbolic-ref HEAD; {BOXED_GIT} rev-parse HEAD")
    assert git_output == git(repository, "symbolic-ref", "HEAD") + git(repository, "rev-parse", "HEAD")
    assert superseded(repository) == [".git"]
    run(repository, f"{BOXED_GIT} add -A; {BOXED_GIT} commit -q --allow-empty -m next")
    assert output(repository, f"{BOXED_GIT} diff --name-only HEAD~1").split() == ["b.txt"]


@pytest.mark.parametrize("harmless", [("status",), ("pack-refs", "--all"), ("gc", "-q"), ("log", "-1")])
def test_n29_a_look_at_the_repository_sets_nothing_aside(repository, harmless):
    run(repository, AGENTS_WAYS["commits"].format(git=BOXED_GIT))
    head = output(repository, f"{BOXED_GIT} rev-parse HEAD")
    Path(repository.root / "a.txt").touch()
    git(repository, *harmless)
    assert output(repository, f"{BOXED_GIT} rev-parse HEAD") == head != git(repository, "rev-parse", "HEAD")
    assert superseded(repository) == []


# what is stale


@pytest.mark.parametrize(("path", "output_path"), [("package.json", "node_modules"), ("app/Cargo.toml", "app/target")])
def test_n28_what_was_made_from_a_rejected_file_is_said_to_be_stale_and_stays(tmp_path, path, output_path):
    review = ReviewCase(tmp_path)
    review.put(".gitignore", b"node_modules\ntarget\n")
    review.put(path, b"one\n\n\n\n\n\n\n\n\ntwo\n")
    review.shadow.write(path, b"ONE\n\n\n\n\n\n\n\n\nTWO\n")
    run(review, f"mkdir -p {output_path}; cp {path} {output_path}/made")
    review.shadow.resolve(path, (review.ids(path)[0],), "accept")
    assert stale(review) == ""
    review.shadow.resolve(path, (), "reject")
    assert f"made from {path} as it was before" in stale(review)
    assert output(review, f"cat {output_path}/made").startswith("ONE")
    run(review, f"cp {path} {output_path}/made")
    review.shadow.follow_project()
    assert stale(review) == ""


@pytest.mark.parametrize("pattern", OUTPUTS)
def test_n28_each_file_of_the_table_makes_its_outputs_stale_and_no_others(pattern):
    name = pattern.replace("*", "x")
    for directory in ("", "packages/app/"):
        tops = [f"{directory}{output_path}" for output_path in OUTPUTS[pattern]]
        assert find_stale_outputs(directory + name, [*tops, "docs/other", "x.log"]) == tops
    assert find_stale_outputs(f"one/{name}", [f"two/{output_path}" for output_path in OUTPUTS[pattern]]) == []


# any order


STEPS = ("agent", "agent removes", "agent makes anew", "user", "user deletes", "user upgrades", "undo")
steps = st.lists(
    st.tuples(st.sampled_from(STEPS), st.sampled_from(["index", "lib/util", "lib/other"])), min_size=2, max_size=6
)


def take_step(review: ReviewCase, number: int, step: str, name: str) -> None:
    match step:
        case "agent":
            leave(review, str(number), name)
        case "agent removes":
            run(review, f"rm -rf deps/{name}")
        case "agent makes anew":
            run(review, f"rm -rf deps; mkdir deps; echo {number} > deps/index")
        case "user":
            fill(review, str(number), name)
        case "user deletes":
            (review.root / "deps" / name).unlink(missing_ok=True)
        case "user upgrades":
            shutil.rmtree(review.root / "deps", ignore_errors=True)
            fill(review, str(number), "index", "extra")
        case "undo" if review.state.verdicts:
            review.shadow.undo()


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps)
def test_n29_in_any_order_commands_see_the_users_or_the_agents_over_the_same_base_or_it_is_said(tmp_path, order):
    review = ReviewCase(tmp_path / f"{time.time_ns()}")
    review.put(".gitignore", b"deps\n")
    fill(review, "0", "index", "lib/util")
    base = on_disk(review)
    for number, (step, name) in enumerate(order, 1):
        take_step(review, number, step, name)
        view, disk = seen(review), on_disk(review)
        if view == disk or step.startswith("agent"):
            base = disk  # the command ran over what was there
        else:
            assert disk == base or stale(review), (step, view, disk)


def test_n29_a_large_directory_costs_a_bounded_look(project, monkeypatch):
    fill(project, "v0", *(f"p{number}/index" for number in range(MAX_NEIGHBOURS)))
    leave(project, "v1", "new/index")
    looked: list[object] = []
    real = __import__("os").scandir
    monkeypatch.setattr("core.shadow.bulk.staleness_check.os.scandir", lambda path: looked.append(path) or real(path))
    project.shadow.follow_project()
    assert len(looked) <= MAX_NEIGHBOURS + 5
