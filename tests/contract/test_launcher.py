"""No project, whatever it is called and whatever it holds, changes or breaks the program."""

from __future__ import annotations

import ast
import itertools
import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.contract.source_tree import ROOT

RAISES = 'raise RuntimeError("the project\'s own module was imported")\n'
KINDS = ("checkout", "editable", "wheel")
# The top of what the real front ends need first; runs after the launcher has ordered the path.
REPORT = """
import json, pathlib, logging, core, tui, core.cli
for module in (core, tui, json, pathlib, logging):
    print(module.__name__, module.__file__)
print(json.dumps({"works": str(pathlib.PurePath("a"))}))
logging.getLogger("x").error("logged")
"""


def write(directory: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


@pytest.fixture
def hostile(tmp_path) -> Path:
    """A project whose core, tui, json and pathlib must never be imported."""
    project = tmp_path / "project"
    names = ("core/__init__.py", "core/cli/arguments.py", "tui/__init__.py", "json.py", "pathlib.py", "argparse.py")
    write(project, dict.fromkeys(names, RAISES))
    return project


def installed(kind: str, request: pytest.FixtureRequest) -> list[str]:
    if kind == "checkout":
        return [sys.executable, str(ROOT / "agent_tui.py")]
    return [str(request.getfixturevalue(kind) / "bin" / "agent-tui")]


def _environment(directory: Path) -> Path:
    """A virtual environment that sees the packages of this one, without our own program."""
    home = directory / "venv"
    venv.create(home, with_pip=False, symlinks=True)
    site = site_packages(home)
    (site / "outer.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return home


def site_packages(home: Path) -> Path:
    return home / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"


def _pip(home: Path, *arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--python", str(home / "bin" / "python"), "--quiet", "install"]
    command += ["--no-deps", "--no-index", "--no-build-isolation", "--ignore-installed"]
    command += ["--no-compile", *arguments]  # of all that is installed little runs
    done = subprocess.run(command, capture_output=True, text=True, timeout=55, check=False, cwd=home)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    home = _environment(tmp_path_factory.mktemp("wheel"))
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(home / "dist")]
    subprocess.run(command, cwd=ROOT, capture_output=True, timeout=50, check=True)
    _pip(home, *map(str, (home / "dist").glob("*.whl")))
    return home


@pytest.fixture(scope="module")
def editable(tmp_path_factory) -> Path:
    home = _environment(tmp_path_factory.mktemp("editable"))
    _pip(home, "--editable", str(ROOT))
    return home


def run(command: list[str], cwd: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=cwd, env={**os.environ, **environ}, capture_output=True, text=True, timeout=30, check=False
    )


def over_kinds(names: str, *values: Sequence[object], kinds: Sequence[str] = KINDS) -> pytest.MarkDecorator:
    """Try all combinations of values with the wheel, which is what is installed, and one with each other kind."""
    combinations = list(itertools.product(*values))
    cases = [(kind, *combination) for kind in kinds for combination in combinations[: None if kind == "wheel" else 1]]
    marks = {"editable": [pytest.mark.slow]}
    return pytest.mark.parametrize(
        ("kind", *names.split()), [pytest.param(*case, marks=marks.get(case[0], ())) for case in cases]
    )


@over_kinds("pythonpath", [".", None, "", "..:.:"])
def test_the_program_starts_in_a_project_with_packages_of_our_names(kind, pythonpath, hostile, request):
    environ = {} if pythonpath is None else {"PYTHONPATH": pythonpath}
    done = run([*installed(kind, request), "--version"], hostile, **environ)
    assert (done.returncode, done.stdout, done.stderr) == (0, "agent-tui 0.1.0\n", "")


@over_kinds("")
def test_help_answers_in_a_project_with_packages_of_our_names(kind, hostile, request):
    done = run([*installed(kind, request), "--help"], hostile, PYTHONPATH=".")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage: agent-tui [DIR]")


@over_kinds("pythonpath", [".", None], kinds=["editable", "wheel"])
def test_the_module_runs_with_the_project_in_front_of_the_path(kind, pythonpath, hostile, request):
    environ = {} if pythonpath is None else {"PYTHONPATH": pythonpath}
    python = str(request.getfixturevalue(kind) / "bin" / "python")
    done = run([python, "-m", "agent_tui", "--version"], hostile, **environ)
    assert (done.returncode, done.stdout, done.stderr) == (0, "agent-tui 0.1.0\n", "")


SPRINGS = "import os; os.system('touch sprung')\n"
OPTIONAL = ("brotli.py", "numpy.py", "socksio.py", "sitecustomize_.py", "ipywidgets/__init__.py")


@over_kinds(
    "name how",
    ["sitecustomize", "usercustomize"],
    ["the current directory", "a directory that is named", "below it"],
)
def test_n16_i1_code_of_the_project_that_python_ran_first_is_named_and_nothing_else_begins(
    kind, how, name, tmp_path, request
):
    project = tmp_path / "project"
    write(project, {f"{name}.py": SPRINGS, f"below/{name}.py": SPRINGS})
    place = {"below it": str(project / "below"), "the current directory": "."}.get(how, str(project))
    arguments = [str(project)] if how.startswith("a dir") else []
    cwd = tmp_path if arguments else project
    done = run([*installed(kind, request), *arguments, "-p", "hi"], cwd, PYTHONPATH=f"/nowhere:{place}")
    if name == "usercustomize" and not (cwd / "sprung").exists():
        return  # a virtual environment has no site of the user's, so it was not run
    assert done.returncode != 0
    assert f"PYTHONPATH leads into the project, and Python has run its {name} already" in done.stderr
    assert "env -u PYTHONPATH agent-tui" in done.stderr
    assert done.stderr.count("\n") == 2


@pytest.mark.parametrize("variable", ["PYTHONUSERBASE", "PYTHONPYCACHEPREFIX"])
@pytest.mark.parametrize("value", [".", "sub", "absolute"])
def test_n16_python_is_not_let_take_its_own_code_from_the_project(variable, value, tmp_path):
    setting = str(tmp_path / "sub") if value == "absolute" else value
    done = run([sys.executable, str(ROOT / "agent_tui.py"), "--version"], tmp_path, **{variable: setting})
    assert done.returncode != 0
    assert f"{variable} leads into the project" in done.stderr
    outside = {variable: str(tmp_path.parent / "elsewhere")}
    (tmp_path / "p").mkdir()
    assert run([sys.executable, str(ROOT / "agent_tui.py"), "--version"], tmp_path / "p", **outside).returncode == 0


@over_kinds("pythonpath", [".", ":/nowhere", "absolute"])
def test_n16_i1_no_module_of_the_project_can_be_imported_later_either(kind, pythonpath, tmp_path, request):
    project = tmp_path / "project"
    write(project, dict.fromkeys(OPTIONAL, SPRINGS))
    search_path = str(project) if pythonpath == "absolute" else pythonpath
    done = run([*installed(kind, request), "doctor"], project, PYTHONPATH=search_path)
    assert "agent-tui" in done.stdout
    assert not (project / "sprung").exists()
    code = "import sys; sys.argv[1:] = ['--version']; import agent_tui; agent_tui.start_isolated()"
    looked = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import os; os.execv = lambda *told: print(told)\n{code}"
    result = run([sys.executable, "-c", looked], project, PYTHONPATH=search_path)
    assert "'-I'" in result.stdout, result.stderr


def test_n16_the_engine_is_started_as_isolated_as_the_screen(tmp_path):
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import agent_tui; print(agent_tui.isolation())"
    for options in ((), ("-I",), ("-E", "-P")):
        done = run([sys.executable, *options, "-c", code], tmp_path)
        assert done.stdout.strip() == repr(options)


def test_n16_a_path_of_modules_elsewhere_costs_no_second_start(tmp_path):
    (tmp_path / "project").mkdir()
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); import os; os.execv = lambda *told: print(told)\n"
        "sys.path[1:2] = []; import agent_tui; agent_tui.start_isolated(); print('stayed')"
    )
    done = run([sys.executable, "-P", "-c", code], tmp_path / "project", PYTHONPATH=str(tmp_path / "libraries"))
    assert done.stdout == "stayed\n", done.stderr


def own_modules(kind: str, request: pytest.FixtureRequest, cwd: Path, **environ: str) -> subprocess.CompletedProcess:
    """What `core`, `json` and so on are after the launcher did its work, in the way of each installation."""
    code = f"import sys; import agent_tui; agent_tui.put_own_code_first(){REPORT}"
    if kind == "checkout":
        code = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{code}"
        return run([sys.executable, "-c", code], cwd, **environ)
    return run([str(request.getfixturevalue(kind) / "bin" / "python"), "-c", code], cwd, **environ)


SITE_CUSTOMIZE = {
    "takes the project's modules": "import core, tui.deep, json, pathlib\n",
    "makes the library build on the project's modules": "import json, logging\n",
    "fails": RAISES,
}


@over_kinds("sitecustomize", [*SITE_CUSTOMIZE])
def test_what_the_start_up_took_from_the_project_is_let_go(kind, sitecustomize, tmp_path, request):
    fakes = ("core/__init__.py", "tui/__init__.py", "tui/deep.py", "json.py", "pathlib.py", "traceback.py")
    write(
        tmp_path / "project",
        {**dict.fromkeys(fakes, "FAKE = True\n"), "sitecustomize.py": SITE_CUSTOMIZE[sitecustomize]},
    )
    done = own_modules(kind, request, tmp_path / "project", PYTHONPATH=".")
    assert done.returncode == 0, done.stderr
    assert str(tmp_path / "project") not in done.stdout
    assert '{"works": "a"}' in done.stdout
    assert "logged" in done.stderr


def test_a_core_of_another_distribution_is_not_ours(wheel, tmp_path):
    intruder = site_packages(wheel) / "core"
    write(intruder, {"__init__.py": RAISES})
    try:
        done = run([str(wheel / "bin" / "agent-tui"), "--version"], tmp_path)
    finally:
        (intruder / "__init__.py").unlink()
        intruder.rmdir()
    assert (done.returncode, done.stdout) == (0, "agent-tui 0.1.0\n")


def test_a_namespace_package_called_core_is_let_go(tmp_path, request):
    write(tmp_path / "project", {"core/cli/arguments.py": "FAKE = True\n", "sitecustomize.py": "import core\n"})
    done = own_modules("checkout", request, tmp_path / "project", PYTHONPATH=".")
    assert done.returncode == 0, done.stderr
    assert f"core {ROOT / 'core' / '__init__.py'}" in done.stdout


def test_the_environment_and_the_entries_of_the_path_stay(hostile):
    code = (
        f"import os, sys; before = dict(os.environ); path = list(sys.path); sys.path.insert(0, {str(ROOT)!r})\n"
        "import agent_tui; agent_tui.put_own_code_first()\n"
        "assert dict(os.environ) == before\n"
        "assert set(path) <= set(sys.path), (path, sys.path)\n"
        "print(sys.path[0]); print(sys.path[-1])"
    )
    done = run([sys.executable, "-c", code], hostile, PYTHONPATH=str(hostile))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [str(ROOT), str(hostile)]


def test_our_own_checkout_is_no_intruder_when_it_is_the_project():
    done = run([sys.executable, "-m", "agent_tui", "--version"], ROOT, PYTHONPATH=".")
    assert (done.returncode, done.stdout, done.stderr) == (0, "agent-tui 0.1.0\n", "")


def test_a_directory_that_was_removed_is_said_and_not_a_traceback(tmp_path):
    removed_directory = tmp_path / "gone"
    removed_directory.mkdir()
    command = [sys.executable, str(ROOT / "agent_tui.py")]
    code = f"import os; os.rmdir({str(removed_directory)!r}); os.execv({sys.executable!r}, {command!r})"
    done = run([sys.executable, "-c", code], removed_directory)
    assert done.returncode == 2
    assert "the current directory no longer exists" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_reader_that_leaves_early_gets_no_traceback():
    command = f"{sys.executable} agent_tui.py --help | true"
    done = run(["/bin/sh", "-c", command], ROOT)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_launcher_parses_on_old_pythons():
    text = (ROOT / "agent_tui.py").read_text(encoding="utf-8")
    assert ast.parse(text, feature_version=(3, 6))
