"""Runs of the tasks: the agent gets the problem, its pending changes are the prediction, and tests judge that."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from benchmarks.tasks.instances import Instance, find_clone, read_patches
from benchmarks.tasks.work_trees import (
    PROGRAM,
    TestRun,
    apply_patch,
    export_tree,
    restore_files,
    run_git,
)

# Models that are scripts made from the correction: the one makes it, the other only adds a comment.
SCRIPTED = ("gold", "wrong")
_HUNK = re.compile(r"^@@ .*$", re.MULTILINE)


class Outcome(Struct, frozen=True, kw_only=True):
    """The result of a task. `stop_reason`: how the turn ended; `missed`: tests that should pass and don't."""

    instance_id: str
    resolved: bool
    stop_reason: str = ""
    missed: tuple[str, ...] = ()
    patch_lines: int = 0
    steps: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = None
    seconds: float = 0.0
    problem: str = ""


class TaskRunner(Struct, frozen=True, kw_only=True):
    """Runs tasks with a model. `clones`: where the repositories are; `scratch` and `out`: directories for work trees
    and for results; `options`: more options of `agent-tui -p`; `run_tests`: how tests are run."""

    model: str
    clones: Path
    scratch: Path
    out: Path
    run_tests: TestRun
    options: tuple[str, ...] = ()

    def run(self, instance: Instance) -> Outcome:
        """Run a task and judge it. A failure of the run is an outcome, too."""
        begin = time.monotonic()
        tree = self.scratch / "work" / instance.instance_id
        try:
            instance = read_patches(instance, self.clones)
            export_tree(find_clone(self.clones, instance.repo), instance.base_commit, tree)
            response = self._ask(instance, tree)
            prediction = self._read_prediction(instance, response["metadata"]["sessionId"], tree)
            missed = self.judge(instance, prediction)
        except (OSError, RuntimeError, ValueError, KeyError, subprocess.SubprocessError) as problem:
            return Outcome(instance_id=instance.instance_id, resolved=False, problem=f"{problem}"[:300])
        usage, metadata = response["usage"], response["metadata"]
        return Outcome(
            instance_id=instance.instance_id,
            resolved=not missed,
            stop_reason=metadata["stopReason"],
            missed=tuple(missed),
            patch_lines=len(re.findall(r"^[+-](?![+-])", prediction, re.MULTILINE)),
            steps=metadata["turnCount"],
            prompt_tokens=usage["promptTokens"],
            completion_tokens=usage["completionTokens"],
            cost=usage["cost"],
            seconds=round(time.monotonic() - begin, 1),
        )

    def _ask(self, instance: Instance, tree: Path) -> dict[str, Any]:
        """Run the agent in the tree. Nothing is accepted: what it has pending is its prediction."""
        model = self.model
        if model in SCRIPTED:
            script = self.scratch / f"{instance.instance_id}.{model}.yaml"
            script.write_text(json.dumps(build_script(instance, tree, model, self.scratch)))
            model = f"scripted/{script}"
        trajectory = self.out / f"{instance.instance_id}.atif.json"
        command = [*PROGRAM, str(tree), "-p", "--model", model, "--output-format", "json", *self.options]
        done = subprocess.run(
            [*command, "--trajectory", str(trajectory)],
            input=instance.problem_statement,
            capture_output=True,
            text=True,
            cwd=tree,
            env={**os.environ, "AGENT_TUI_STATE_DIR": str(self.scratch / "state"), "AGENT_TUI_SCRIPT_SPEED": "0"},
            check=False,
        )
        if not done.stdout.strip():
            raise RuntimeError(f"agent-tui ended with {done.returncode}: {done.stderr.strip()[-300:]}")
        response: dict[str, Any] = json.loads(done.stdout)
        return response

    def _read_prediction(self, instance: Instance, session: str, tree: Path) -> str:
        """Return the patch of the session, which goes to preds.json with those of the other tasks."""
        words = ("sessions", "export", session, "--format", "preds", "--instance", instance.instance_id)
        done = subprocess.run(
            [*PROGRAM, *words],
            capture_output=True,
            text=True,
            cwd=tree,
            env={**os.environ, "AGENT_TUI_STATE_DIR": str(self.scratch / "state")},
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"no prediction: {done.stderr.strip()[-300:]}")
        predictions, path = json.loads(done.stdout), self.out / "preds.json"
        known = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps(known | predictions, indent=2) + "\n")
        patch: str = predictions[instance.instance_id]["model_patch"]
        return patch

    def judge(self, instance: Instance, prediction: str) -> list[str]:
        """Return the tests that should pass with a prediction and don't. The tests are those of the correction,
        whatever the prediction made of them."""
        tree = self.scratch / "judged" / instance.instance_id
        shutil.rmtree(tree, ignore_errors=True)
        export_tree(find_clone(self.clones, instance.repo), instance.base_commit, tree)
        apply_patch(tree, prediction)
        restore_files(tree, instance.list_test_files())
        apply_patch(tree, instance.test_patch)
        passed = self.run_tests(tree, instance.path, instance.list_test_files())
        return [test for test in (*instance.FAIL_TO_PASS, *instance.PASS_TO_PASS) if test not in passed]


def build_script(instance: Instance, tree: Path, kind: str, scratch: Path) -> dict[str, Any]:
    """Return the script of a model that makes the correction hunk by hunk, or that only adds a comment to it."""
    wanted = scratch / "wanted" / instance.instance_id
    shutil.rmtree(wanted, ignore_errors=True)
    shutil.copytree(tree, wanted, symlinks=True)
    apply_patch(wanted, instance.patch)
    calls = []
    for path in run_git(wanted, "diff", "--name-only").splitlines():
        diff = run_git(wanted, "diff", "--unified=10", "--", path)
        hunks = [_split_hunk(text) for text in _HUNK.split(diff)[1:]]
        if kind == "wrong":
            hunks = [(old, f"{old}# This line changes nothing.\n") for old, _ in hunks[-1:]]
        calls += [_build_edit(path, old, new) for old, new in hunks]
    return {
        "tokens_per_second": 0,
        "steps": [*({"tool_calls": [call]} for call in calls), "Done."],
    }


def _split_hunk(text: str) -> tuple[str, str]:
    lines = text.removeprefix("\n").splitlines(keepends=True)
    sides = ("".join(line[1:] for line in lines if line[:1] in marks) for marks in ((" ", "-"), (" ", "+")))
    old, new = sides
    return old, new


def _build_edit(path: str, old: str, new: str) -> dict[str, Any]:
    return {"name": "search_replace", "arguments": {"file_path": path, "old_string": old, "new_string": new}}


def format_table(outcomes: Sequence[Outcome]) -> str:
    """Format the outcomes for people."""
    rows = [
        (
            "resolved" if outcome.resolved else "not resolved",
            outcome.instance_id,
            outcome.problem or outcome.stop_reason,
            f"{outcome.steps} steps",
            f"{outcome.prompt_tokens + outcome.completion_tokens} tokens",
            "-" if outcome.cost is None else f"${outcome.cost:.3f}",
            f"{outcome.seconds:.0f} s",
        )
        for outcome in outcomes
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)] if rows else []
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([*lines, f"{sum(outcome.resolved for outcome in outcomes)} of {len(outcomes)} resolved"])
