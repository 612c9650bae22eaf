from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.search_paths import (
    DEFAULT_PATH,
    list_ignored,
    list_named_directories,
    remove_project_entries,
    restore_user_paths,
)


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    (tmp_path / "project" / "bin").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "project")
    return tmp_path / "project"


@pytest.mark.parametrize(
    "entry",
    [
        "",
        ".",
        "bin",
        "./bin",
        "../x",
        "~/bin",
        "$HOME/bin",
        "{project}",
        "{project}/bin",
        "{project}/none",
        "{place}/link/bin",
        "{place}/other/../project/bin",
        "{project}/",
    ],
)
def test_n34_what_leads_into_the_project_leaves_the_path(project, entry):
    path_entry = entry.format(project=project, place=project.parent)
    environ = {"PATH": f"/usr/bin:{path_entry}:/bin"}
    assert remove_project_entries([project], environ) == [f"PATH={path_entry or '(empty)'}"]
    assert environ["PATH"] == "/usr/bin:/bin"
    assert list_ignored(environ) == [f"PATH={path_entry or '(empty)'}"]
    is_full = path_entry.startswith("/")
    assert restore_user_paths(environ)["PATH"] == (f"/usr/bin:{path_entry}:/bin" if is_full else "/usr/bin:/bin")


def test_n34_a_link_of_the_project_that_leads_out_of_it_is_the_projects(project, tmp_path):
    (tmp_path / "tools").mkdir()
    (project / "out").symlink_to(tmp_path / "tools")
    environ = {"PATH": f"{project}/out:{tmp_path}/tools"}
    remove_project_entries([project], environ)
    assert environ["PATH"] == f"{tmp_path}/tools"


def test_n34_the_repository_that_the_project_lies_in_counts_and_the_home_does_not(project, tmp_path):
    (project / ".git").mkdir()
    environ = {"PATH": f"{project}/bin:/bin"}
    assert remove_project_entries([project / "src"], environ) == [f"PATH={project}/bin"]
    home = tmp_path / "home"
    for place in (home, tmp_path, Path("/")):
        environ = {"PATH": f"{home}/.local/bin:.:/bin"}
        assert remove_project_entries([place], environ) == ["PATH=."]


def test_n34_a_path_that_has_nothing_else_is_the_systems_and_no_path_stays_none(project):
    for value in ("", ".", f"{project}/bin:"):
        environ = {"PATH": value}
        assert remove_project_entries([project], environ)
        assert environ["PATH"] == DEFAULT_PATH
    environ = {}
    assert remove_project_entries([project], environ) == []
    assert environ == {}


def test_n34_libraries_and_gits_own_programs_are_not_taken_from_the_project_either(project):
    environ = {
        "LD_LIBRARY_PATH": f":{project}/lib",
        "LD_PRELOAD": f"libjemalloc.so.2 ./evil.so:{project}/evil.so",
        "LD_AUDIT": "audit.so",
        "GIT_EXEC_PATH": "libexec",
    }
    remove_project_entries([project], environ)
    own = {name: value for name, value in environ.items() if not name.startswith("AGENT_TUI")}
    assert own == {"LD_PRELOAD": "libjemalloc.so.2", "LD_AUDIT": "audit.so"}
    assert restore_user_paths(environ)["LD_LIBRARY_PATH"] == f"{project}/lib"


def test_n34_what_was_taken_out_first_is_what_the_user_has(project):
    environ = {"PATH": f"{project}/bin:/bin"}
    remove_project_entries([project], environ)
    remove_project_entries([Path("/bin")], environ)
    assert restore_user_paths(environ)["PATH"] == f"{project}/bin:/bin"


def test_n34_a_command_line_names_projects_by_words_and_by_values(project, monkeypatch):
    monkeypatch.chdir(project)
    words = ["-p", "Do it", "bin", f"--directory={project.parent}", "--model=none", "\0"]
    assert list_named_directories(words) == [Path(), Path("bin"), project.parent]


@given(st.lists(st.sampled_from(["", ".", "bin", "/usr/bin", "/bin", "/project/bin", "/project", "/projects/bin"])))
def test_n34_what_is_left_is_full_outside_of_the_project_and_in_the_users_order(entries):
    environ = {"PATH": os.pathsep.join(entries)}
    ignored = remove_project_entries([Path("/project")], environ)
    left = environ["PATH"].split(os.pathsep)
    expected_entries = [
        entry
        for entry in entries
        if entry.startswith("/") and not entry.startswith(("/project/",)) and entry != "/project"
    ]
    assert left == (expected_entries or DEFAULT_PATH.split(os.pathsep))
    assert bool(ignored) == (len(expected_entries) < len(entries or [""]))
