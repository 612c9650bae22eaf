from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import ToolFailed
from core.filesystem import overlay_support
from core.filesystem.overlay_support import SHARED_MEMORY, can_hold_upper
from core.filesystem.removal import remove_tree
from core.sandbox.box import BoxRequest
from core.sandbox.tiers.project_survey import CopyLimits
from core.sandbox.tiers.session_copy import SessionCopies
from tests.unit.sandbox.tiers.trees import EDITS, LAYERS, Edit, Shape, apply, show

_COMMAND = st.tuples(EDITS, st.booleans(), EDITS)  # its edits, the result is kept, the user's edits afterwards


def build_request(workspace: Path, *lowers: Path, withheld: tuple[str, ...] = ()) -> BoxRequest:
    return BoxRequest(workspace=workspace, command="", env={}, lowers=lowers, withheld=withheld)


@contextmanager
def make_places() -> Iterator[Path]:
    """A directory for one example: `tmp_path` belongs to the test."""
    top = Path(tempfile.mkdtemp(prefix="copies-"))
    try:
        (top / "project").mkdir()
        yield top
    finally:
        remove_tree(top)


def make_directory(path: Path) -> Path:
    path.mkdir()
    return path


def make_layers(top: Path, edits_by_layer: list[list[Edit]]) -> list[Path]:
    layers = [make_directory(top / f"layer{number}") for number in range(len(edits_by_layer))]
    for layer, edits in zip(layers, edits_by_layer, strict=True):
        apply(layer, edits)
    return layers


@pytest.fixture(scope="module", params=["linux", "darwin"], autouse=True)
def encoding(request: pytest.FixtureRequest) -> Iterator[None]:
    """The marks of layers as overlayfs has them, and as they are on macOS."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(overlay_support, "_IS_DARWIN", request.param == "darwin")
        yield


@settings(max_examples=40, deadline=None)
@given(EDITS, LAYERS, st.lists(_COMMAND, min_size=1, max_size=4), st.booleans())
def test_a_layer_over_the_old_view_is_what_the_command_left(
    tree: list[Edit], raw_layers: list[list[Edit]], commands: list[tuple[list[Edit], bool, list[Edit]]], keep: bool
):
    with make_places() as top:
        workspace = top / "project"
        apply(workspace, tree)
        layers = make_layers(top, raw_layers)
        copies = SessionCopies(top / "state")
        for number, (edits, is_kept, later) in enumerate(commands):
            view = show(*layers, workspace)
            lease = copies.acquire(build_request(workspace, *layers))
            assert show(lease.root) == view
            apply(lease.root, edits)
            outcome = show(lease.root)
            upper = make_directory(top / f"upper{number}")
            lease.collect(upper, has_survivors=keep)
            assert show(upper, *layers, workspace) == outcome
            if is_kept:
                layers.insert(0, upper)
            apply(workspace, later)
        copies.close()
        assert list((top / "state").iterdir()) == []


@settings(max_examples=50, deadline=None)
@given(
    EDITS,
    st.lists(st.tuples(EDITS, st.sampled_from(["kept", "dropped", "unwritten"]), EDITS, EDITS), min_size=1, max_size=4),
)
def test_what_surviving_processes_change_is_kept_and_belongs_to_the_next_command(
    tree: list[Edit], commands: list[tuple[list[Edit], str, list[Edit], list[Edit]]]
):
    with make_places() as top:
        workspace, layers = top / "project", list[Path]()
        apply(workspace, tree)
        copies = SessionCopies(top / "state")
        theirs: Shape = {}
        for number, (edits, fate, later, user_edits) in enumerate(commands):
            lease = copies.acquire(build_request(workspace, *layers))
            begun = show(lease.root)
            assert theirs.items() <= begun.items()
            apply(lease.root, edits)
            outcome = show(lease.root)
            upper = make_directory(top / f"upper{number}")
            lease.collect(None if fate == "unwritten" else upper, has_survivors=True)
            if fate != "unwritten":
                assert show(upper, *layers, workspace) == outcome
            if fate == "kept":
                layers.insert(0, upper)
            left = show(lease.root)
            assert left == outcome
            apply(lease.root, later)
            theirs = {path: entry for path, entry in show(lease.root).items() if left.get(path) != entry}
            apply(workspace, user_edits)
        copies.close()
        assert list((top / "state").iterdir()) == []


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "src").mkdir(parents=True)
    for name in ("a", "b", "src/one"):
        (root / name).write_text(f"{name}\n")
    return root


def test_what_is_unchanged_is_not_copied_again(project: Path, tmp_path: Path):
    copies = SessionCopies(tmp_path / "state")
    lease = copies.acquire(build_request(project))
    before = {name: (lease.root / name).stat().st_ino for name in ("a", "b", "src/one")}
    (lease.root / "a").write_text("changed\n")
    lease.collect(None)
    (project / "b").write_text("edited by the user\n")
    lease = copies.acquire(build_request(project))
    assert (lease.root / "a").read_text() == "a\n"
    assert (lease.root / "b").read_text() == "edited by the user\n"
    assert (lease.root / "src" / "one").stat().st_ino == before["src/one"]
    copies.close()


def test_a_log_that_a_process_still_writes_stays_its_file_when_its_text_was_kept(project: Path, tmp_path: Path):
    copies = SessionCopies(tmp_path / "state")
    lease = copies.acquire(build_request(project))
    upper, second = make_directory(tmp_path / "upper"), make_directory(tmp_path / "second")
    with (lease.root / "server.log").open("a") as log:
        print("started", file=log, flush=True)
        lease.collect(upper, has_survivors=True)
        lease = copies.acquire(build_request(project, upper))
        print("request", file=log, flush=True)
        lease.collect(second, has_survivors=True)
    assert (upper / "server.log").read_text() == "started\n"
    assert (second / "server.log").read_text() == "started\nrequest\n"
    copies.close()


def test_the_last_part_of_the_path_is_the_projects_name_and_the_path_stays(project: Path, tmp_path: Path):
    copies = SessionCopies(tmp_path / "state")
    first = copies.acquire(build_request(project))
    beside = copies.acquire(build_request(project))
    assert first.root.name == beside.root.name == "project"
    assert first.root != beside.root
    beside.collect(None)
    first.collect(None)
    assert copies.acquire(build_request(project)).root == first.root
    copies.close()


def test_no_more_copies_are_kept_and_used_than_allowed(project: Path, tmp_path: Path):
    copies = SessionCopies(tmp_path / "state", spare=1, most=2)
    leases = [copies.acquire(build_request(project)) for _ in range(2)]
    with pytest.raises(ToolFailed, match="2 commands are running"):
        copies.acquire(build_request(project))
    for lease in leases:
        lease.collect(None)
    assert [lease.root.exists() for lease in leases] == [True, False]
    last = copies.acquire(build_request(project))
    copies.close()
    assert last.root.exists()
    last.collect(None)
    assert not last.root.exists()


def test_a_copy_that_is_too_large_leaves_nothing_and_a_later_one_keeps_the_last(project: Path, tmp_path: Path):
    copies = SessionCopies(tmp_path / "state", limits=CopyLimits(size=40))
    lease = copies.acquire(build_request(project))
    lease.collect(None)
    (project / "large").write_text("x" * 50)
    with pytest.raises(ToolFailed, match="needs a copy of the project") as refused:
        copies.acquire(build_request(project))
    assert refused.value.code == "copy_too_large"
    assert lease.root.exists()
    (project / "large").unlink()
    assert copies.acquire(build_request(project)).root == lease.root
    copies.close()
    with pytest.raises(ToolFailed, match="needs a copy of the project"):
        SessionCopies(tmp_path / "other", limits=CopyLimits(size=4)).acquire(build_request(project))
    assert [path for path in (tmp_path / "other").rglob("*") if path.name == "project"] == []


def test_what_is_withheld_stays_empty_and_its_fate_does_not_count(project: Path, tmp_path: Path):
    copies = SessionCopies(tmp_path / "state")
    request = build_request(project, withheld=("a", "src"))
    for number in range(2):
        lease = copies.acquire(request)
        assert (lease.root / "a").stat().st_size == 0
        assert (lease.root / "a").stat().st_mode & 0o777 == 0
        assert list((lease.root / "src").iterdir()) == []
        (lease.root / "a").unlink()
        (lease.root / "a").write_text("mine\n")
        (lease.root / "src").chmod(0o755)
        (lease.root / "src" / "new").write_text("new\n")
        upper = make_directory(tmp_path / f"upper{number}")
        lease.collect(upper)
        assert list(upper.iterdir()) == []
    copies.close()


def test_a_held_directory_that_a_command_replaces_replaces_the_whole(project: Path, tmp_path: Path):
    (project / ".gitignore").write_text("modules\n")
    (project / "modules").mkdir()
    (project / "modules" / "old").write_text("x" * 5000)
    copies = SessionCopies(tmp_path / "state", limits=CopyLimits(ignored_size=100))
    lease = copies.acquire(build_request(project))
    assert lease.held == [b"modules"]
    assert (lease.root / "modules").is_symlink()
    assert any("modules" in note for note in lease.notes)
    (lease.root / "modules").unlink()
    (lease.root / "modules").mkdir()
    (lease.root / "modules" / "new").write_text("new\n")
    upper = make_directory(tmp_path / "upper")
    lease.collect(upper)
    shape = show(upper, project)
    assert b"modules/new" in shape
    assert b"modules/old" not in shape
    lease = copies.acquire(build_request(project))
    assert (lease.root / "modules").is_symlink()
    copies.close()


@pytest.mark.skipif(not can_hold_upper(SHARED_MEMORY), reason="no other file system for a layer")
def test_a_layer_on_another_file_system_is_filled_by_copying(project: Path, tmp_path: Path):
    copies = SessionCopies(tmp_path / "state")
    lease = copies.acquire(build_request(project))
    (lease.root / "a").write_text("changed\n")
    (lease.root / "b").unlink()
    (lease.root / "new" / "deep").mkdir(parents=True)
    (lease.root / "new" / "deep" / "f").write_text("f\n")
    (lease.root / "shut").mkdir()
    (lease.root / "shut" / "unreadable").write_text("u\n")
    (lease.root / "shut" / "unreadable").chmod(0)
    (lease.root / "link").symlink_to("a")
    outcome = show(lease.root)
    (lease.root / "shut").chmod(0)
    upper = Path(tempfile.mkdtemp(prefix="agent-tui-", dir=SHARED_MEMORY))
    try:
        lease.collect(upper)
        assert stat.S_IMODE((upper / "shut").stat().st_mode) == 0
        (upper / "shut").chmod(0o755)
        (upper / "shut" / "unreadable").chmod(0o400)
        shown = show(upper, project)
    finally:
        remove_tree(upper)
    assert shown.pop(b"shut/unreadable") == ("file", 0o400, b"u\n")
    outcome.pop(b"shut/unreadable")
    assert shown == outcome
    assert show(copies.acquire(build_request(project)).root) == show(project)
    copies.close()


def test_a_command_that_removes_its_whole_directory_has_deleted_all(project: Path, tmp_path: Path):
    copies = SessionCopies(tmp_path / "state")
    lease = copies.acquire(build_request(project))
    shutil.rmtree(lease.root)
    upper = make_directory(tmp_path / "upper")
    lease.collect(upper)
    assert show(upper, project) == {}
    assert show(copies.acquire(build_request(project)).root) == show(project)
    copies.close()


def test_leftovers_of_a_dead_engine_have_its_number(project: Path, tmp_path: Path):
    copies = SessionCopies(tmp_path / "state")
    lease = copies.acquire(build_request(project))
    assert lease.root.parents[1].name.startswith(f"box-{os.getpid()}-run")
    copies.close()
