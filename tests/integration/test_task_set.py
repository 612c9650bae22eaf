"""The task set in SWE-bench's form, on a tiny repository: the gold run resolves, the wrong one does not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.tasks.__main__ import main
from benchmarks.tasks.instances import Instance, find_clone, load_instances, read_patches, save_instances
from benchmarks.tasks.runs import TaskRunner, build_script
from benchmarks.tasks.work_trees import apply_patch, build_test_run, export_tree, run_git

BROKEN = "def double(x):\n    return x + 2\n\n\ndef half(x):\n    return x / 2\n"
TESTS = """from sums import double, half


def test_half():
    assert half(4) == 2


def test_two():
    assert double(2) == 4
"""
MORE = "\n\ndef test_three():\n    assert double(3) == 6\n"


@pytest.fixture
def clones(tmp_path) -> Path:
    """A clone with a mistake in one commit, and its correction with a test in the next."""
    clone = tmp_path / "clones" / "acme+sums"
    (clone / "tests").mkdir(parents=True)
    run_git(clone, "init", "--quiet")
    for source, tests in ((BROKEN, TESTS), (BROKEN.replace("x + 2", "x * 2"), TESTS + MORE)):
        (clone / "sums.py").write_text(source)
        (clone / "tests" / "test_sums.py").write_text(tests)
        run_git(clone, "add", "--all")
        run_git(clone, "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "--quiet", "--message", "x")
    return clone.parent


def describe(clones: Path, **fields) -> Instance:
    facts = {
        "instance_id": "acme__sums-1",
        "repo": "acme/sums",
        "base_commit": "",
        "fix_commit": run_git(clones / "acme+sums", "rev-parse", "HEAD").strip(),
        "license": "MIT",
        "problem_statement": "double(3) is 5.",
    }
    return Instance(**{**facts, **fields})


def test_a_task_is_made_from_a_correction_without_a_line_of_the_repository(clones, tmp_path):
    path = tmp_path / "instances.json"
    save_instances([describe(clones)], path)
    assert main(["--make", "--instances", str(path), "--clones", str(clones), "--unboxed"]) == 0
    (task,) = load_instances(path)
    assert task.FAIL_TO_PASS == ("tests/test_sums.py::test_three",)
    assert task.PASS_TO_PASS == ("tests/test_sums.py::test_half", "tests/test_sums.py::test_two")
    assert task.patch == task.test_patch == ""
    assert main(["--export", str(path), "--instances", str(path), "--clones", str(clones)]) == 0
    (full_task,) = load_instances(path)
    assert "+    return x * 2" in full_task.patch
    assert full_task.list_test_files() == ["tests/test_sums.py"]


@pytest.mark.parametrize(("model", "is_resolved"), [("gold", True), ("wrong", False)])
def test_the_gold_run_resolves_and_the_wrong_one_does_not(clones, tmp_path, capsys, model, is_resolved):
    path, out = tmp_path / "instances.json", tmp_path / "out"
    save_instances([describe(clones, FAIL_TO_PASS=("tests/test_sums.py::test_three",))], path)
    places = ["--instances", str(path), "--clones", str(clones), "--out", str(out), "--unboxed"]
    assert main(["--model", model, *places]) == 0
    (outcome,) = json.loads((out / "results.json").read_text())
    assert (outcome["resolved"], outcome["stop_reason"], outcome["steps"]) == (is_resolved, "done", 2)
    assert outcome["missed"] == ([] if is_resolved else ["tests/test_sums.py::test_three"])
    (prediction,) = json.loads((out / "preds.json").read_text()).values()
    assert prediction["instance_id"] == "acme__sums-1"
    assert ("+    return x * 2" in prediction["model_patch"]) == is_resolved
    assert json.loads((out / "acme__sums-1.atif.json").read_text())["schema_version"] == "ATIF-v1.8"
    assert f"{int(is_resolved)} of 1 resolved" in capsys.readouterr().out


def build_runner(clones: Path, tmp_path: Path) -> TaskRunner:
    return TaskRunner(
        model="gold",
        clones=clones,
        scratch=tmp_path / "scratch",
        out=tmp_path,
        run_tests=build_test_run(sys.executable, boxed=False),
    )


def test_a_prediction_that_changes_the_tests_is_judged_by_those_of_the_correction(clones, tmp_path):
    task = read_patches(describe(clones, FAIL_TO_PASS=("tests/test_sums.py::test_three",)), clones)
    tree = tmp_path / "tree"
    export_tree(find_clone(clones, task.repo), task.base_commit, tree)
    (tree / "tests" / "test_sums.py").write_text("def test_three():\n    pass\n")
    cheat = run_git(tree, "diff")
    assert build_runner(clones, tmp_path).judge(task, cheat) == ["tests/test_sums.py::test_three"]
    assert build_runner(clones, tmp_path).judge(task, cheat + task.patch) == []


def test_a_tree_has_no_history_and_no_correction_in_it(clones, tmp_path):
    task = read_patches(describe(clones), clones)
    tree = tmp_path / "tree"
    export_tree(find_clone(clones, task.repo), task.base_commit, tree)
    assert len(run_git(tree, "rev-list", "--all").splitlines()) == 1
    assert "x + 2" in (tree / "sums.py").read_text()
    with pytest.raises(RuntimeError, match="git cat-file"):
        run_git(tree, "cat-file", "-t", task.fix_commit)


def test_the_scripts_edit_with_lines_that_are_in_the_file_once(clones, tmp_path):
    task = read_patches(describe(clones), clones)
    tree = tmp_path / "tree"
    export_tree(find_clone(clones, task.repo), task.base_commit, tree)
    for kind in ("gold", "wrong"):
        *steps, _ = build_script(task, tree, kind, tmp_path)["steps"]
        for step in steps:
            assert BROKEN.count(step["tool_calls"][0]["arguments"]["old_string"]) == 1
    apply_patch(tree, task.patch)
    assert "x * 2" in (tree / "sums.py").read_text()


def test_a_missing_clone_is_an_outcome_and_no_crash(clones, tmp_path, capsys):
    path = tmp_path / "instances.json"
    save_instances([describe(clones, repo="acme/lost")], path)
    arguments = ["--instances", str(path), "--clones", str(clones), "--out", str(tmp_path / "out"), "--unboxed"]
    assert main(arguments) == 1
    assert "git clone https://github.com/acme/lost" in capsys.readouterr().out


def test_the_tasks_of_the_house_are_complete_and_of_permissive_licences():
    tasks = load_instances()
    assert len(tasks) == 10
    assert len({task.instance_id for task in tasks}) == 10
    assert {task.license for task in tasks} <= {"MIT", "BSD-3-Clause"}
    for task in tasks:
        assert task.FAIL_TO_PASS
        assert len(task.fix_commit) == len(task.base_commit) == 40
        assert task.patch == task.test_patch == ""
        assert len(task.problem_statement) > 80


def test_the_command_lists_repositories_without_any_clone():
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.tasks", "--list"], capture_output=True, text=True, check=True
    )
    assert "https://github.com/mahmoud/boltons  BSD-3-Clause" in done.stdout
