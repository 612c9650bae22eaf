from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.sandbox.other_path import map_paths, rewrite_command

_DATA = '{"dir_info": {"editable": true}, "url": "file://%s"}'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "src" / "shop").mkdir(parents=True)
    (root / "lib" / "shop").mkdir(parents=True)
    (root / ".venv" / "bin").mkdir(parents=True)
    (root / ".venv" / "pyvenv.cfg").write_text("home = /usr/bin\n")
    copy = tmp_path / "copy" / "project"
    for name in ("src/shop", "lib/shop", ".venv/bin"):
        (copy / name).mkdir(parents=True)
    return root


def library_of(prefix: Path) -> Path:
    library = prefix / "lib" / "python3.11" / "site-packages"
    library.mkdir(parents=True, exist_ok=True)
    return library


def install(library: Path, project: Path, **files: str) -> None:
    for name, text in files.items():
        (library / name.replace("__pth", ".pth").replace("__py", ".py")).write_text(text)
    info = library / "shop-1.dist-info"
    info.mkdir()
    (info / "direct_url.json").write_text(_DATA % project)


FINDER = """\
import sys
MAPPING: dict[str, str] = {mapping}
NAMESPACES: dict[str, list[str]] = {spaces}
PATH_PLACEHOLDER = '__editable__.shop-1.finder.__path_hook__'
"""
HOOK = "import __editable___shop_1_finder; __editable___shop_1_finder.install()"


def finder(mapping: dict[str, str], spaces: str = "{}") -> dict[str, str]:
    text = FINDER.format(mapping=mapping, spaces=spaces)
    return {"__editable__.shop-1__pth": HOOK, "__editable___shop_1_finder__py": text}


@pytest.mark.parametrize(
    "name", ["__editable__.shop-1__pth", "_editable_impl_shop__pth", "shop__pth", "easy-install__pth"]
)
def test_a_path_that_an_environment_lists_is_searched_in_the_copy_first(project: Path, tmp_path: Path, name: str):
    install(library_of(project / ".venv"), project, **{name: f"{project}/src"})
    mapping = map_paths({"PYTHONPATH": "/opt/more"}, project, tmp_path / "copy" / "project")
    assert mapping.env["PYTHONPATH"] == f"{tmp_path}/copy/project/src:/opt/more"
    assert mapping.problem == ""


def test_a_package_of_setuptools_finder_is_found_in_the_copy(project: Path, tmp_path: Path):
    install(library_of(project / ".venv"), project, **finder({"shop": f"{project}/lib/shop"}))
    mapping = map_paths({}, project, tmp_path / "copy" / "project")
    assert mapping.env["PYTHONPATH"] == f"{tmp_path}/copy/project/lib"
    assert mapping.problem == ""


def test_a_package_of_the_package_editables_is_found_in_the_copy(project: Path, tmp_path: Path):
    text = f"F.install()\nF.map_module('shop', '{project}/src/shop/__init__.py')"
    files = {"_editable_impl_shop__pth": "import _editable_impl_shop", "_editable_impl_shop__py": text}
    install(library_of(project / ".venv"), project, **files)
    mapping = map_paths({}, project, tmp_path / "copy" / "project")
    assert mapping.env["PYTHONPATH"] == f"{tmp_path}/copy/project/src"


def unmappable(project: Path, case: str) -> dict[str, str]:
    return {
        "another name": finder({"store": f"{project}/lib/shop"}),
        "namespace": finder({"shop": f"{project}/lib/shop"}, f"{{'more': ['{project}/more']}}"),
        "import hook": {"shop__pth": "import _shop_loader", "_shop_loader__py": f"install('{project}/build')"},
        "unknown way": {},
    }[case]


@pytest.mark.parametrize("case", ["another name", "namespace", "import hook", "unknown way"])
def test_what_can_not_be_mapped_makes_the_run_no_evidence(project: Path, tmp_path: Path, case: str):
    install(library_of(project / ".venv"), project, **unmappable(project, case))
    mapping = map_paths({}, project, tmp_path / "copy" / "project", "pytest")
    assert case in mapping.problem
    assert "proves nothing about the pending changes" in mapping.problem
    assert map_paths({}, project, tmp_path / "copy" / "project", "npm test").problem == ""


def test_a_directory_that_would_hide_modules_of_python_is_not_put_first(project: Path, tmp_path: Path):
    install(library_of(project / ".venv"), project, shop__pth=f"{project}/src")
    (tmp_path / "copy" / "project" / "src" / "types.py").write_text("")
    mapping = map_paths({}, project, tmp_path / "copy" / "project")
    assert "PYTHONPATH" not in mapping.env
    assert "types" in mapping.problem


def test_another_project_in_the_environment_changes_nothing(project: Path, tmp_path: Path):
    library = library_of(project / ".venv")
    (library / "other.pth").write_text(f"/opt/other/src\n# {project}/src\nimport os; os.environ\n{project}-other/src\n")
    (library / "other-1.dist-info").mkdir()
    (library / "other-1.dist-info" / "direct_url.json").write_text(json.dumps({"url": "https://example.org/a.whl"}))
    mapping = map_paths({"PATH": "/usr/bin"}, project, tmp_path / "copy" / "project")
    assert (mapping.env, mapping.problem) == ({}, "")


@pytest.mark.parametrize("where", ["VIRTUAL_ENV", "PATH", "HOME"])
def test_environments_outside_of_the_project_are_read_too(project: Path, tmp_path: Path, where: str):
    prefix = tmp_path / "elsewhere"
    install(library_of(prefix / ".local" if where == "HOME" else prefix), project, shop__pth=f"{project}/src")
    env = {where: f"{prefix}/bin" if where == "PATH" else str(prefix)}
    mapping = map_paths(env, project, tmp_path / "copy" / "project")
    assert mapping.env == {"PYTHONPATH": f"{tmp_path}/copy/project/src"}


def test_directories_of_path_lead_into_the_copy_if_it_has_them(project: Path, tmp_path: Path):
    (project / "tools").mkdir()
    env = {"PATH": f"{project}/.venv/bin:{project}/tools:/usr/bin", "VIRTUAL_ENV": f"{project}/.venv"}
    copy = tmp_path / "copy" / "project"
    mapping = map_paths(env, project, copy)
    assert mapping.env == {"PATH": f"{copy}/.venv/bin:{project}/tools:/usr/bin", "VIRTUAL_ENV": f"{copy}/.venv"}


def test_the_projects_absolute_path_in_a_command_means_the_copy():
    inside = "cd {0} && grep -r x '{0}/src' --file={0}; cat >{0}"
    beside = "ls /w/shop-2 /a/w/shop /w/shop.bak /w/shop/../x"
    for command in (inside, beside):
        expected = command.replace("{0}", "/c/1/shop")
        assert rewrite_command(command.replace("{0}", "/w/shop"), Path("/w/shop"), Path("/c/1/shop")) == expected
