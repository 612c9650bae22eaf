"""What a red file names is red, pending or on disk, and says which file names it."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.support.verdicts import accept_everything

STEP = "jobs:\n  a:\n    steps:\n      - run: {}\n"
NAMING = {
    "AGENTS.md": ("See @docs/rules.md for more.\n", "docs/rules.md"),
    "CLAUDE.md": ("- @./docs/rules.md\n", "docs/rules.md"),
    ".cursor/rules/a.mdc": ("---\nalwaysApply: true\n---\n@docs/rules.md\n", "docs/rules.md"),
    ".husky/pre-commit": ("sh scripts/check\n", "scripts/check"),
    ".husky/commit-msg": ('node "$(dirname "$0")/x"; node scripts/check.js\n', "scripts/check.js"),
    ".envrc": ("source_env conf/env\n", "conf/env"),
    ".envrc.local": ("PATH_add tools/bin\n", "tools/bin/git"),
    ".git/hooks/pre-push": ("#!/bin/sh\nexec ./scripts/push.sh\n", "scripts/push.sh"),
    ".github/workflows/ci.yml": (STEP.format("./scripts/ci.sh --fast"), "scripts/ci.sh"),
    ".github/workflows/b.yml": ("steps:\n- uses: ./tools/action\n", "tools/action/index.js"),
    ".vscode/tasks.json": ('{"tasks": [{"command": "${workspaceFolder}/scripts/t.py"}]}', "scripts/t.py"),
    "package.json": (json.dumps({"scripts": {"postinstall": "node ./scripts/post"}}), "scripts/post.cjs"),
    "web/package.json": (json.dumps({"scripts": {"prepare": "npm run x", "x": "node x.mjs"}}), "web/x.mjs"),
    "composer.json": (json.dumps({"scripts": {"post-install-cmd": ["@php tools/post.php"]}}), "tools/post.php"),
    ".pre-commit-config.yaml": ("repos:\n- repo: local\n  hooks:\n  - entry: python -m tools.lint\n", "tools/lint.py"),
    "lefthook.yml": ("pre-commit:\n  commands:\n    a:\n      run: ruby scripts/a.rb\n", "scripts/a.rb"),
    "mise.toml": ('[tasks.a]\nrun = "bash scripts/task"\n', "scripts/task"),
    "Taskfile.yaml": ("tasks:\n  a:\n    cmds: [./scripts/a.sh]\n", "scripts/a.sh"),
    ".devcontainer/devcontainer.json": ('{"postCreateCommand": "bash .ci/setup.sh"}', ".ci/setup.sh"),
}


@pytest.mark.parametrize("is_pending", [True, False], ids=["pending", "on disk"])
@pytest.mark.parametrize("source", NAMING)
def test_n23_what_a_red_file_names_is_red_and_says_by_which(review, source, is_pending):
    text, named = NAMING[source]
    if is_pending and not source.startswith(".git/"):
        review.shadow.write(source, text.encode())
    else:
        review.put(source, text.encode())
    review.shadow.write(named, b"x\n")
    review.shadow.write("src/other.py", b"x\n")
    change = review.state.changes[named]
    assert change.protected
    assert change.risk.endswith(f" by {source}")
    assert not review.state.changes["src/other.py"].protected
    accept_everything(review.shadow)
    assert review.disk(named) is None
    assert review.disk("src/other.py") == b"x\n"


def test_n23_what_it_names_in_turn_is_red_too_and_a_circle_ends(review):
    review.put(".husky/pre-push", b"sh a.sh\n")
    review.put("a.sh", b"sh b.sh\n")
    review.shadow.write("b.sh", b"sh a.sh; python c.py\n")
    review.shadow.write("c.py", b"x\n")
    risks = {path: change.risk for path, change in review.state.changes.items()}
    assert risks == {"b.sh": "is run by a.sh", "c.py": "is run by b.sh"}


def test_n23_a_file_that_was_pending_before_becomes_red_with_what_names_it(review):
    review.shadow.write("scripts/a.sh", b"x\n")
    assert not review.state.changes["scripts/a.sh"].protected
    review.shadow.write(".envrc", b". scripts/a.sh\n")
    assert review.state.changes["scripts/a.sh"].risk == "is run by .envrc"


def test_n23_also_what_hooks_name_that_git_takes_from_elsewhere(review):
    subprocess.run(["git", "init", "-q"], cwd=review.root, check=True)
    subprocess.run(["git", "config", "core.hooksPath", "tools/hooks"], cwd=review.root, check=True)
    review.put("tools/hooks/pre-commit", b"python3 lint/run.py\n")
    review.shadow.write("lint/run.py", b"x\n")
    assert review.state.changes["lint/run.py"].risk == "is run by tools/hooks/pre-commit"


@pytest.mark.parametrize(
    ("source", "text", "path"),
    [
        (".github/workflows/ci.yml", "on: {push: {paths: [src/**]}}\nrun: docker run -v /src:/app x\n", "src/a.py"),
        ("AGENTS.md", "The layout: src/a.py and docs/x.md.\n", "src/a.py"),
        ("package.json", json.dumps({"scripts": {"test": "node test.js"}}), "test.js"),
        ("README.md", "@src/a.py\n", "src/a.py"),
    ],
)
def test_n23_what_is_only_spoken_of_is_not(review, source, text, path):
    review.put(source, text.encode())
    review.shadow.write(path, b"x\n")
    assert not review.state.changes[path].protected
