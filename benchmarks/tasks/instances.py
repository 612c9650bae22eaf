"""The tasks: fields as SWE-bench names them, made from a correction in a clone of its repository.

The committed file has commits, problems and lists of tests, and no line of the repositories: their patches are read
from the clones.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from benchmarks.tasks.work_trees import TestRun, apply_patch, export_tree, run_git

INSTANCES = Path(__file__).with_name("instances.json")


class Instance(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A task. `fix_commit` corrects what `problem_statement` describes at `base_commit`; `patch` is its part that is no
    test, `test_patch` the rest. `license` is that of the repository. `path`: where its packages are."""

    instance_id: str
    repo: str
    base_commit: str
    fix_commit: str
    license: str
    problem_statement: str
    path: str = "."
    patch: str = ""
    test_patch: str = ""
    FAIL_TO_PASS: tuple[str, ...] = ()
    PASS_TO_PASS: tuple[str, ...] = ()

    def list_test_files(self) -> list[str]:
        """List the files that the test patch changes."""
        return re.findall(r"^\+\+\+ b/(.+)$", self.test_patch, re.MULTILINE)


def load_instances(path: Path = INSTANCES) -> list[Instance]:
    """Load the tasks of a file."""
    return msgspec.json.decode(path.read_bytes(), type=list[Instance])


def save_instances(instances: Sequence[Instance], path: Path = INSTANCES) -> None:
    """Write the tasks to a file, without their patches."""
    write_instances([replace(instance, patch="", test_patch="") for instance in instances], path)


def write_instances(instances: Sequence[Instance], path: Path) -> None:
    """Write the tasks as they are: with their patches, it is a data set for SWE-bench's own programs."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(instances), indent=2) + b"\n")


def find_clone(clones: Path, repo: str) -> Path:
    """Find the clone of `owner/name` below a directory: owner/name, owner+name, owner__name or name. Raises
    FileNotFoundError."""
    owner, _, name = repo.partition("/")
    for candidate in (clones / owner / name, clones / f"{owner}+{name}", clones / f"{owner}__{name}", clones / name):
        for place in (candidate, candidate / "repo"):
            done = subprocess.run(["git", "-C", str(place), "rev-parse", "--git-dir"], capture_output=True, check=False)
            if place.is_dir() and not done.returncode:
                return place
    raise FileNotFoundError(f"there is no clone of {repo} in {clones}: git clone https://github.com/{repo}")


def read_patches(instance: Instance, clones: Path) -> Instance:
    """Return a task with its patches, from the clone."""
    clone, fix = find_clone(clones, instance.repo), instance.fix_commit
    base = run_git(clone, "rev-parse", f"{fix}^").strip()
    paths = run_git(clone, "diff", "--name-only", base, fix).splitlines()
    tests = [path for path in paths if is_test(path)]
    sources = [path for path in paths if path.endswith((".py", ".pyi")) and path not in tests]
    return replace(
        instance,
        base_commit=base,
        patch=run_git(clone, "diff", base, fix, "--", *sources),
        test_patch=run_git(clone, "diff", base, fix, "--", *tests),
    )


def make_instance(instance: Instance, clones: Path, scratch: Path, run: TestRun) -> Instance:
    """Make the lists of tests of a correction, by running its tests without and with it. Raises ValueError: no test
    failed before that passes then."""
    task = read_patches(instance, clones)
    tree = scratch / task.instance_id
    export_tree(find_clone(clones, task.repo), task.base_commit, tree)
    apply_patch(tree, task.test_patch)
    before = run(tree, task.path, task.list_test_files())
    apply_patch(tree, task.patch)
    after = run(tree, task.path, task.list_test_files())
    fixed = tuple(sorted(after - before))
    if not fixed:
        raise ValueError(f"{task.instance_id}: no test fails without the correction and passes with it")
    return replace(task, FAIL_TO_PASS=fixed, PASS_TO_PASS=tuple(sorted(after & before)))


def is_test(path: str) -> bool:
    """Return True for a file of tests, by its name."""
    name = path.rpartition("/")[2]
    return name.endswith(".py") and (name.startswith("test") or name.endswith("_test.py") or "tests/" in path)
