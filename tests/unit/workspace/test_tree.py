"""No path leads out of the workspace, no odd file blocks it, and every name can be handled."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import PathRefused
from core.filesystem import open_beneath as beneath
from core.workspace import ABSENT, IgnoreRules, Workspace
from core.workspace import file_names as names


@pytest.fixture(params=["openat2", "walking"])
def workspace(request, tmp_path, monkeypatch) -> Workspace:
    if request.param == "walking":
        monkeypatch.setattr(beneath, "_choose_opener", lambda: beneath.open_by_walking)
    (tmp_path / "project").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "key").write_bytes(b"secret")
    return Workspace(tmp_path / "project", state_dir=tmp_path / "state")


def outside(workspace: Workspace) -> Path:
    return workspace.root.parent / "outside"


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../x", "a/..", "a\0b", "/", "..", "\ud800"])
def test_p1_foreign_paths_are_refused(workspace, path):
    with pytest.raises(PathRefused):
        workspace.to_relative(path)


def test_paths_are_normalised(workspace):
    assert workspace.to_relative("./a//b/./c/") == "a/b/c"
    assert workspace.to_relative(f"{workspace.root}/a") == "a"
    assert workspace.to_relative(str(workspace.root)) == "."
    assert workspace.to_relative("-rf") == "-rf"
    with pytest.raises(PathRefused):
        workspace.to_relative(f"{workspace.root}x/a")


@pytest.mark.parametrize("link", ["absolute", "relative", "chain"])
def test_p2_links_out_of_the_tree_are_neither_read_nor_written(workspace, link):
    target = {"absolute": outside(workspace), "relative": Path("../outside"), "chain": Path("hop")}[link]
    (workspace.root / "hop").symlink_to("../outside")
    (workspace.root / "l").symlink_to(target)
    for attempt in (
        lambda: workspace.to_relative("l/key"),
        lambda: workspace.read_bytes("l/key"),
        lambda: workspace.write_atomic("l/key", b"mine"),
        lambda: workspace.write_atomic("l/new", b"mine"),
        lambda: workspace.list_dir("l"),
        lambda: workspace.stat("l/key"),
    ):
        with pytest.raises(PathRefused):
            attempt()
    assert {path.name: path.read_bytes() for path in outside(workspace).iterdir()} == {"key": b"secret"}


def test_p3_a_directory_swapped_for_a_link_never_lets_a_write_out(workspace):
    inside, parked, stop = workspace.root / "d", workspace.root / "parked", threading.Event()
    inside.mkdir()

    def swap() -> None:
        while not stop.is_set():
            with suppress(OSError):  # the other thread makes the directory anew now and then
                inside.rename(parked)
            with suppress(OSError):
                inside.symlink_to(outside(workspace))
                inside.unlink()
                parked.rename(inside)
            shutil.rmtree(parked, ignore_errors=True)

    swapping = threading.Thread(target=swap)
    swapping.start()
    tried = written = 0
    while tried < 300 or not written:  # on a busy machine the link may stand there for long
        tried += 1
        with suppress(PathRefused):
            workspace.write_atomic(f"d/f{tried}", b"x")
            written += 1
    stop.set()
    swapping.join()
    assert [path.name for path in outside(workspace).iterdir()] == ["key"]


def test_p4_n1_a_link_within_the_tree_is_followed_to_read_and_never_written_through(workspace):
    (workspace.root / "real").mkdir()
    (workspace.root / "real" / "f").write_bytes(b"old")
    (workspace.root / "l").symlink_to("real/f")
    (workspace.root / "d").symlink_to(workspace.root / "real")
    assert workspace.resolve("l") == workspace.resolve("d/f") == "real/f"
    assert workspace.read_bytes("d/f") == b"old"
    for path in ("l", "d/f", "d/new"):
        with pytest.raises(PathRefused):
            workspace.write_atomic(path, b"new")
    assert [entry.name for entry in (workspace.root / "real").iterdir()] == ["f"]
    assert (workspace.root / "real" / "f").read_bytes() == b"old"
    assert (workspace.root / "l").is_symlink()
    assert workspace.read_state("l")[0].kind == "symlink"


def test_links_that_go_round_are_refused(workspace):
    (workspace.root / "a").symlink_to("b")
    (workspace.root / "b").symlink_to("a")
    with pytest.raises(PathRefused):
        workspace.read_bytes("a")


def test_p11_fifos_sockets_and_devices_never_block(workspace):
    os.mkfifo(workspace.root / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(workspace.root / "s"))
        for name in ("pipe", "s"):
            with pytest.raises(PathRefused, match="not a regular file"):
                workspace.read_bytes(name)
            with pytest.raises(PathRefused):
                workspace.read_state(name)
    with pytest.raises(PathRefused, match="a directory"):
        workspace.read_bytes(".")


@pytest.mark.parametrize(
    "name", [b"a\nb", b"\x1b[2J", "\u202eevil".encode(), b"\xff\xfe", b"-rf", "\U0010ff80".encode()]
)
def test_p10_odd_names_are_listed_read_and_written(workspace, name):
    raw = workspace.root / os.fsdecode(name)
    raw.write_bytes(b"old")
    (entry,) = workspace.list_dir()
    entry.name.encode("utf-8")
    assert names.to_os_name(entry.name) == name
    rel = workspace.to_relative(entry.name)
    assert rel == entry.name == workspace.to_relative(os.fsdecode(name)) or b"\xf4" in name
    assert workspace.read_bytes(rel) == b"old"
    workspace.write_atomic(rel, b"new")
    assert raw.read_bytes() == b"new"


@given(st.binary(min_size=1, max_size=20).filter(lambda name: b"\0" not in name))
def test_p10_every_name_has_one_wire_form_and_comes_back(name):
    wire = names.from_os_name(name)
    assert names.to_os_name(wire) == name
    assert wire.encode("utf-8").decode("utf-8") == wire


def test_p6_modes_are_kept_and_special_bits_never_set(workspace):
    script = workspace.root / "run"
    script.write_bytes(b"#!/bin/sh\n")
    script.chmod(0o4755)
    workspace.write_atomic("run", b"#!/bin/sh\nexit\n")
    assert stat.S_IMODE(script.stat().st_mode) == 0o755
    workspace.write_atomic("deep/new", b"", 0o6755)
    assert stat.S_IMODE((workspace.root / "deep" / "new").stat().st_mode) == 0o755
    workspace.write_atomic("plain", b"")
    assert stat.S_IMODE((workspace.root / "plain").stat().st_mode) == workspace.new_file_mode


def test_p12_a_huge_file_is_read_to_its_limit_only(workspace):
    with (workspace.root / "huge").open("wb") as file:
        file.truncate(2 << 30)
    assert len(workspace.read_bytes("huge", 1000)) == 1000
    with pytest.raises(PathRefused, match="too large"):
        workspace.read_state("huge")


def test_p21_roots_that_are_no_project_are_refused_with_advice(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    (tmp_path / "me" / "state").mkdir(parents=True)
    for root in (Path("/"), tmp_path / "me", tmp_path):
        with pytest.raises(PathRefused) as refused:
            Workspace(root, state_dir=tmp_path / "elsewhere")
        assert "project" in refused.value.hint
    with pytest.raises(PathRefused, match="state"):
        Workspace(tmp_path / "me" / "state", state_dir=tmp_path / "me" / "state" / "agent-tui")
    with pytest.raises(PathRefused, match="can't be opened"):
        Workspace(tmp_path / "missing")


def test_n16_settings_that_are_named_below_a_project_are_not_the_users(tmp_path, monkeypatch):
    project, home = tmp_path / "project", tmp_path / "home"
    project.mkdir()
    home.mkdir()
    (tmp_path / "alias").symlink_to(project)
    for config_directory in (project / ".config", tmp_path / "alias" / "deep" / "config", project):
        monkeypatch.setenv("AGENT_TUI_CONFIG_DIR", str(config_directory))
        with pytest.raises(PathRefused, match="settings") as refused:
            Workspace(tmp_path / "alias", state_dir=tmp_path / "state")
        assert "AGENT_TUI_CONFIG_DIR" in refused.value.hint
    (home / "config").symlink_to(project)  # dotfiles: the project is where the user keeps their settings
    for config_directory in (home / "config", home / "config" / "tui", project / ".." / "home", tmp_path / "elsewhere"):
        monkeypatch.setenv("AGENT_TUI_CONFIG_DIR", str(config_directory))
        assert Workspace(project, state_dir=tmp_path / "state").root == project


def test_states_tell_what_is_there(workspace):
    assert workspace.read_state("nothing") == (ABSENT, None)
    assert workspace.read_state("no/where") == (ABSENT, None)
    assert workspace.stat("nothing") is None
    (workspace.root / "f").write_bytes(b"abc")
    state, data = workspace.read_state("f")
    assert (state.kind, state.size, data) == ("file", 3, b"abc")


def test_ignore_rules_follow_git(workspace):
    rules = IgnoreRules(workspace)
    workspace.write_atomic(".gitignore", b"*.log\nbuild/\n!keep.log\n")
    workspace.write_atomic("sub/.gitignore", b"!a.log\n/only\n")
    ignored = ["x.log", "sub/b.log", "build/keep.log", "sub/only", ".git/config"]
    assert [path for path in ignored if not rules.is_ignored(path, False)] == []
    included_paths = ["keep.log", "sub/a.log", "only", "build", "sub/deep/only", "a.py"]
    assert [path for path in included_paths if rules.is_ignored(path, False)] == []
    assert rules.is_ignored("build", True)
    workspace.write_atomic(".gitignore", b"a.py\n")
    assert rules.is_ignored("a.py", False)
    assert not rules.is_ignored("x.log", False)


def test_p20_what_cursorignore_names_is_withheld(workspace):
    rules = IgnoreRules(workspace)
    workspace.write_atomic(".cursorignore", b".env\nsecrets/\n")
    with pytest.raises(PathRefused, match="cursorignore"):
        rules.refuse_withheld("secrets/deep/key")
    with pytest.raises(PathRefused, match="cursorignore"):
        rules.refuse_withheld(".env")
    rules.refuse_withheld("env")


def test_n15_one_look_at_a_tree_finds_what_each_look_finds(workspace):
    files = {".gitignore": "*.log\n/out\n!keep.log\n", "a/.gitignore": "x\n!b.log\n", "a/b/.cursorignore": "secret\n"}
    for name, content in files.items():
        (workspace.root / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace.root / name).write_text(content)
    (workspace.root / ".git" / "info").mkdir(parents=True)
    (workspace.root / ".git" / "info" / "exclude").write_text("mine\n")
    rules = IgnoreRules(workspace)
    look = rules.open_snapshot()
    for directory in ("a/b/c", ".", "a", "a/b", "out", "out/x", "a/x/y", ".git", ".git/info", "a/b/secret", "mine/z"):
        for name in ("x", "b.log", "c.log", "keep.log", "secret", "mine", "out", ".git", "plain"):
            for is_dir in (False, True):
                assert look(directory)(name, is_dir) == rules.match_in(directory)(name, is_dir), (directory, name)


@pytest.mark.parametrize(
    ("spelling", "path"), [("link/a/b.txt", "a/b.txt"), ("link", "."), ("deep/b.txt", "a/b.txt"), ("link/../x", "")]
)
def test_an_absolute_path_may_come_by_a_link_outside_of_the_workspace(workspace, spelling, path):
    workspace.write_atomic("a/b.txt", b"")
    above = workspace.root.parent
    (above / "link").symlink_to(workspace.root)
    (above / "deep").symlink_to(workspace.root / "a")
    if path:
        assert workspace.to_relative(f"{above}/{spelling}") == path
    else:
        with pytest.raises(PathRefused):
            workspace.to_relative(f"{above}/{spelling}")


def test_a_link_round_in_circles_leads_to_no_workspace(workspace):
    (workspace.root.parent / "round").symlink_to(workspace.root.parent / "round")
    with pytest.raises(PathRefused, match="outside"):
        workspace.to_relative(f"{workspace.root.parent}/round/a")


@pytest.mark.parametrize(("umask", "mode"), [(0o002, 0o664), (0o022, 0o644), (0o077, 0o600)])
def test_a_new_file_has_the_mode_that_the_umask_leaves(tmp_path, umask, mode):
    before = os.umask(umask)
    try:
        (tmp_path / "project").mkdir()
        tree = Workspace(tmp_path / "project")
    finally:
        os.umask(before)
    tree.write_atomic("new.txt", b"")
    assert stat.S_IMODE((tree.root / "new.txt").stat().st_mode) == mode
