"""What a protected file names is protected, pending or on disk, and says which file names it."""

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
def test_n23_what_a_protected_file_names_is_protected_and_says_by_which(review, source, is_pending):
    text, referenced_path = NAMING[source]
    if is_pending and not source.startswith(".git/"):
        review.shadow.write(source, text.encode())
    else:
        review.put(source, text.encode())
    review.shadow.write(referenced_path, b"x\n")
    review.shadow.write("src/other.py", b"x\n")
    change = review.state.changes[referenced_path]
    assert change.protected
    assert change.risk.endswith(f" by {source}")
    assert not review.state.changes["src/other.py"].protected
    accept_everything(review.shadow)
    assert review.disk(referenced_path) is None
    assert review.disk("src/other.py") == b"x\n"


def test_n23_what_it_names_in_turn_is_protected_too_and_a_circle_ends(review):
    review.put(".husky/pre-push", b"sh a.sh\n")
    review.put("a.sh", b"sh b.sh\n")
    review.shadow.write("b.sh", b"sh a.sh; python c.py\n")
    review.shadow.write("c.py", b"x\n")
    risks = {path: change.risk for path, change in review.state.changes.items()}
    assert risks == {"b.sh": "is run by a.sh", "c.py": "is run by b.sh"}


def test_n23_a_file_that_was_pending_before_becomes_protected_with_what_names_it(review):
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


def scripts(**names: str) -> str:
    return json.dumps({"scripts": names})


RUN_B = scripts(build="node tools/b.js", test="node test/run.js", pretest="sh test/first.sh")
# By what it shows: the files that stand there, and the script that some of them runs.
HIDDEN: dict[str, tuple[dict[str, str], str]] = {
    "a change of directory": ({"package.json": scripts(prepare="cd tools && node b.js")}, "tools/b.js"),
    "a working directory": (
        {".github/workflows/c.yml": STEP.format("./x.sh\n        working-directory: sub")},
        "sub/x.sh",
    ),
    "a variable": ({".husky/pre-commit": "D=scripts\nsh $D/x.sh\n"}, "scripts/x.sh"),
    "the output of a command": ({".husky/pre-commit": 'cd "$(git rev-parse)"/scripts\n./x.sh\n'}, "scripts/x.sh"),
    "a loop": ({".envrc": "for f in conf/*.sh; do . $f; done\n"}, "conf/x.sh"),
    "a loop over Python": ({".envrc": "for f in conf/*.py; do python $f; done\n"}, "conf/x.py"),
    "a matrix": ({".github/workflows/c.yml": "m: [x]\n" + STEP.format("sh sub/${{ matrix.m }}.sh")}, "sub/x.sh"),
    "braces": ({".githooks/pre-commit": "sh t/{x,y}.sh\n"}, "t/x.sh"),
    "quotes": ({".githooks/pre-commit": "sh t/'x'.sh\n"}, "t/x.sh"),
    "a backslash": ({".githooks/pre-commit": "sh t/\\x.sh\n"}, "t/x.sh"),
    "small letters": ({".githooks/pre-commit": "cd T && sh X.SH\n"}, "t/x.sh"),
    "blanks": ({".githooks/pre-commit": "sh 't/x y.sh'\n"}, "t/x y.sh"),
    "a makefile by name": ({".travis.yml": "script: cd sub; make -f b.mk\n"}, "sub/b.mk"),
    "parts of a path": (
        {"package.json": scripts(postinstall="node a.js"), "a.js": "run(path.join(__dirname, 'lib', 'h.sh'))\n"},
        "lib/h.sh",
    ),
    "node and a directory": ({"package.json": scripts(prepare="node scripts")}, "scripts/index.js"),
    "node and itself": ({"package.json": '{"main": "lib/m", "scripts": {"prepare": "node ."}}'}, "lib/m.js"),
    "python -m": ({"package.json": scripts(prepare="python3 -m tools")}, "tools/__main__.py"),
    "python -m below src": ({".githooks/pre-commit": "PYTHONPATH=src python -m tool\n"}, "src/tool.py"),
    "python -c": ({"package.json": scripts(prepare='python3 -c "import gen; gen.main()"')}, "gen.py"),
    "import": ({"sitecustomize.py": "import helper\n"}, "helper.py"),
    "from": ({"sitecustomize.py": "from lib.h import x\n"}, "lib/h.py"),
    "from a package": ({"sitecustomize.py": "from lib import (\n    h,\n)\n"}, "lib/h.py"),
    "the package above": ({"sitecustomize.py": "from lib.h import x\n", "lib/h.py": ""}, "lib/__init__.py"),
    "import by call": ({"sitecustomize.py": 'importlib.import_module("lib.h")\n'}, "lib/h.py"),
    "import of a hook": (
        {".githooks/a": "#!/usr/bin/env python3\nsys.path.insert(0, 'tools')\nimport x\n"},
        "tools/x.py",
    ),
    "backend": (
        {"pyproject.toml": '[build-system]\nbuild-backend = "be.core:api"\n"backend-path" = ["_b"]\n'},
        "_b/be/core.py",
    ),
    "Ruby": ({".githooks/pre-commit": "#!/usr/bin/ruby\nrequire_relative '../tools/x'\n"}, "tools/x.rb"),
    "mod": ({"build.rs": "mod helper;\n"}, "helper/mod.rs"),
    "path of mod": ({"build.rs": '#[path = "gen/x.rs"]\nmod h;\n'}, "gen/x.rs"),
    "include!": ({"build.rs": 'include!("gen/x.inc");\n'}, "gen/x.inc"),
    "build of a crate": ({"Cargo.toml": 'package.name = "x"\npackage.build = "gen/main.rs"\n'}, "gen/main.rs"),
    "npm test": ({".husky/pre-commit": "npm test\n", "package.json": RUN_B}, "test/run.js"),
    "npm t": ({".husky/pre-commit": "npm t\n", "package.json": RUN_B}, "test/run.js"),
    "what runs before": ({".husky/pre-commit": "npm test\n", "package.json": RUN_B}, "test/first.sh"),
    "run-s": ({"package.json": scripts(prepare="run-s build:*", **{"build:a": "node tools/b.js"})}, "tools/b.js"),
    "--prefix": ({".envrc": "npm --prefix sub run build\n", "sub/package.json": RUN_B}, "sub/tools/b.js"),
    "-w": ({".envrc": "npm run build -w pk/a\n", "pk/a/package.json": RUN_B}, "pk/a/tools/b.js"),
    "-w by name": ({".envrc": "npm run build -w @x/a\n", "pk/a/package.json": RUN_B}, "pk/a/tools/b.js"),
    "a task of npm": (
        {".vscode/tasks.json": '{"type": "npm", "script": "build"}', "package.json": RUN_B},
        "tools/b.js",
    ),
    "composer": ({".envrc": "composer go\n", "composer.json": scripts(go="@on", on="php t/x.php")}, "t/x.php"),
    "deno": ({".envrc": "deno task go\n", "deno.jsonc": '{"tasks": {"go": "deno run t/x.ts",},} // x'}, "t/x.ts"),
    "use flake": ({".envrc": "use flake\n"}, "flake.nix"),
    "use nix": ({".envrc": "use nix\n"}, "shell.nix"),
    "use devenv": ({".envrc": "use devenv\n"}, "devenv.nix"),
    "tsdk": ({".vscode/settings.json": '{"typescript.tsdk": "tools/ts/lib"}'}, "tools/ts/lib/tsserver.js"),
    "nodePath": ({".vscode/settings.json": '{"eslint.nodePath": "./nm"}'}, "nm/eslint/index.js"),
    "include, local": ({".gitlab-ci.yml": "include:\n- local: '/ci/x.yml'\n"}, "ci/x.yml"),
    "include, a word": ({".gitlab-ci.yml": "include: ci/x.yml\n"}, "ci/x.yml"),
    "include, a pattern": ({".gitlab-ci.yml": "include:\n  local: 'ci/*.yml'\n"}, "ci/x.yml"),
    "include, at any depth": ({".gitlab-ci.yml": "include: 'ci/**.yml'\n"}, "ci/a/x.yml"),
    "include, a trigger": ({".gitlab-ci.yml": "a:\n  trigger: {include: ci/x.yml}\n"}, "ci/x.yml"),
    "include, in turn": (
        {".gitlab-ci.yml": "include: ci/x.yml\n", "ci/x.yml": "a:\n  script: [sh tools/z.sh]\n"},
        "tools/z.sh",
    ),
    "includes": ({"Taskfile.yml": "includes:\n  a: ./tasks/a.yml\n"}, "tasks/a.yml"),
    "includes of a directory": ({"Taskfile.yml": "includes:\n  a:\n    taskfile: ./tasks\n"}, "tasks/a.yml"),
    "extends": ({"lefthook.yml": "extends:\n- conf/l.yml\n"}, "conf/l.yml"),
    "extends, a pattern": ({"lefthook.yml": "extends: [conf/*.yml]\n"}, "conf/l.yml"),
    "source_dir": ({"lefthook.yml": "source_dir: conf\n"}, "conf/pre-commit/x"),
    "rc": ({"lefthook.yml": "rc: conf/rc\n"}, "conf/rc"),
    "_.file": ({"mise.toml": '[env]\n_.file = "conf/e"\n'}, "conf/e"),
    "an enter hook": ({"mise.toml": '[hooks]\nenter = "{{config_root}}/conf/e.sh"\n'}, "conf/e.sh"),
    "task_config": ({"mise.toml": '[task_config]\nincludes = ["xt"]\n'}, "xt/build"),
    "dockerfile": ({".devcontainer/devcontainer.json": '{"build": {"dockerfile": "../docker/Dev"}}'}, "docker/Dev"),
    "compose": ({".devcontainer/devcontainer.json": '{"dockerComposeFile": ["../c.dev.yml"]}'}, "c.dev.yml"),
    "hooks of a repository here": ({".pre-commit-config.yaml": "repos:\n- repo: ./hk\n"}, "hk/x.sh"),
}


@pytest.mark.parametrize("form", HIDDEN)
def test_n23_what_a_protected_file_runs_is_protected_however_it_is_named(review, form):
    files, referenced_path = HIDDEN[form]
    for path, text in files.items():
        review.put(path, text.encode())
    review.put(referenced_path, b"")
    review.shadow.write(referenced_path, b"x\n")
    review.shadow.write("src/other.py", b"x\n")
    assert review.state.changes[referenced_path].protected
    assert not review.state.changes["src/other.py"].protected
    accept_everything(review.shadow)
    assert review.disk(referenced_path) == b""


def test_n23_the_files_that_a_directory_gives_to_a_hook_are_protected(review):
    review.put(".husky/pre-commit", b"run-parts scripts\n")
    review.put("scripts/x", b"#!/bin/sh\n", mode=0o755)
    review.shadow.write("scripts/x", b"#!/bin/sh\nevil\n")
    review.shadow.write("scripts/deep/data.txt", b"x\n")
    assert review.state.changes["scripts/x"].protected
    assert not review.state.changes["scripts/deep/data.txt"].protected


def test_n23_a_script_that_a_hook_calls_by_name_is_protected_where_it_changes(review):
    review.put(".husky/pre-commit", b"npm test\n")
    review.put("package.json", scripts(test="jest", start="vite").encode())
    review.shadow.write("package.json", scripts(test="jest", start="evil").encode())
    assert not review.state.changes["package.json"].protected
    review.shadow.write("package.json", scripts(test="evil", start="vite").encode())
    assert review.state.changes["package.json"].risk == "is run by .husky/pre-commit (test)"


def test_n23_a_flood_of_protected_files_hides_none_of_the_top(review):
    review.put(".git/hooks/pre-push", b"sh a.sh\n")
    for number in range(700):
        review.put(f"many/{number}.code-workspace", b"{}\n")
    review.shadow.write("many/x.txt", b"x\n")
    review.shadow.write("a.sh", b"x\n")
    assert review.state.changes["a.sh"].protected


CHECKS = """
on: {push: {paths: ["src/**", "tests/**/*.py", "scripts/*.py"]}}
jobs:
  test:
    steps:
      - run: pip install -e . -r requirements/dev.txt
      - run: ruff check src tests && mypy src
      - run: pytest tests tests/test_*.py --cov=src
      - run: python -m pytest tests/unit && python -m build && tox -e py && make all
      - run: python -c "import shop; print(shop.__version__)"
      - run: npx eslint 'src/**/*.ts' && npm test && cargo test && go test ./...
      - uses: codecov/codecov-action@v4 # for all of the src in tests
"""


@pytest.mark.parametrize(
    "path",
    [
        *("src/shop/__init__.py", "src/app.ts", "src/index.ts", "src/lib.rs", "src/main.go", "tests/test_a.py"),
        *("tests/unit/test_b.py", "tests/conftest.py", "scripts/tool.py", "requirements/dev.txt", "pyproject.toml"),
        *(
            "tox.ini",
            "Makefile",
            "package.json",
            "setup.py",
            "Dockerfile",
            "eslint.config.js",
            "docs/x.md",
            "src/run.py",
        ),
    ],
)
def test_n23_a_workflow_that_checks_all_makes_no_ordinary_file_protected(review, path):
    review.put(".github/workflows/ci.yml", CHECKS.encode())
    review.put(".husky/pre-commit", b"npx lint-staged\nmake lint\n")
    review.put("package.json", scripts(test="vitest run tests", build="tsc -p .").encode())
    for source_path in ("src/shop/x.py", "tests/unit/x.py", "scripts/x.py", path):
        review.put(source_path, (review.disk(source_path) or b""))
    review.shadow.write(path, (review.disk(path) or b"") + b"\n")
    assert not review.state.changes[path].protected


@pytest.mark.parametrize("path", ["m.py", "a.py", "s.py", "x.sh", "wip.py", "lib/m.js", "commit.py", "git.py"])
def test_n23_the_examples_that_git_lays_down_and_messages_make_nothing_protected(review, path):
    subprocess.run(["git", "init", "-q", str(review.root)], check=True)
    review.put(".husky/pre-push", b"git stash -m wip\ngit commit -q -m m --no-verify\n")
    review.put(path, b"one\n")
    review.shadow.write(path, b"two\n")
    assert not review.state.changes[path].protected, review.state.changes[path].risk


@pytest.mark.parametrize("directory", ["tools", "hooks", "scripts", "config", "bin", "tasks", "ci"])
def test_n23_what_lies_beside_a_place_of_protected_files_makes_nothing_protected(review, directory):
    review.put(f"core/{directory}/call.py", b"from core.ids import check\nimport shared\n")
    review.put(f"{directory}/call.py", b"from core.ids import check\nimport shared\n")
    for path in ("core/ids.py", "shared.py"):
        review.put(path, b"one\n")
        review.shadow.write(path, b"two\n")
        assert not review.state.changes[path].protected, review.state.changes[path].risk
