"""A whole job in real projects: a bug is fixed and tested in the shadow, and the disk follows the verdicts alone."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import pytest
from msgspec import Struct

from core.engine import Engine, EngineOptions
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol import queries as q
from core.protocol.messages import ToolMessage
from core.sandbox.box import Tier
from tests.support.box_cases import SYSTEM_PATH, tree
from tests.support.box_tiers import offered
from tests.support.trust import trust

PAD = "\n# a line between\n" * 6
OTHERS = 300


class Recipe(Struct, frozen=True):
    """A project with a bug in three places: `fixes` are old and new text in `source`, `tests` a command for each."""

    name: str
    files: Mapping[str, str]
    source: str
    fixes: tuple[tuple[str, str], ...]
    tests: tuple[str, ...]
    check: str
    prepare: Callable[[Path], object] = lambda _: None


def make_environment(project: Path) -> None:
    """The project's own virtual environment, with a package that only it has."""
    python = shutil.which("python3", path=SYSTEM_PATH)
    assert python is not None
    subprocess.run([python, "-m", "venv", "--without-pip", ".venv"], cwd=project, check=True)
    [packages] = (project / ".venv").glob("lib/python3*/site-packages")
    (packages / "rates.py").write_text("VAT = 20\n")


PYTHON = Recipe(
    name="python",
    files={
        "shop/__init__.py": "",
        "shop/prices.py": "import rates\n\n\ndef total(prices):\n    return max(prices)\n"
        + PAD
        + "\n\ndef discount(price, percent):\n    return price * percent // 100\n"
        + PAD
        + "\n\ndef vat(price):\n    return price * rates.VAT\n",
        "tests/__init__.py": "",
        "tests/test_prices.py": "import unittest\n\nfrom shop import prices\n\n\nclass Prices(unittest.TestCase):\n"
        "    def test_total(self):\n        self.assertEqual(prices.total([1, 2]), 3)\n\n"
        "    def test_discount(self):\n        self.assertEqual(prices.discount(200, 10), 180)\n\n"
        "    def test_vat(self):\n        self.assertEqual(prices.vat(100), 20)\n",
        ".gitignore": ".venv/\n__pycache__/\n",
    },
    source="shop/prices.py",
    fixes=(
        ("return max(prices)", "return sum(prices)"),
        ("return price * percent // 100", "return price * (100 - percent) // 100"),
        ("return price * rates.VAT", "return price * rates.VAT // 100"),
    ),
    tests=tuple(
        f".venv/bin/python -m unittest tests.test_prices.Prices.test_{name}" for name in ("total", "discount", "vat")
    ),
    check=". .venv/bin/activate && python -m unittest",
    prepare=make_environment,
)
NODE = Recipe(
    name="node",
    files={
        "package.json": '{"name": "shop", "private": true, "scripts": {"test": "node --test test/"}}\n',
        "node_modules/rates/index.js": "exports.VAT = 20;\n",
        "lib/prices.js": "const rates = require('rates');\nexports.total = (prices) => Math.max(...prices);\n"
        + PAD.replace("#", "//")
        + "exports.discount = (price, percent) => (price * percent) / 100;\n"
        + PAD.replace("#", "//")
        + "exports.vat = (price) => price * rates.VAT;\n",
        "test/prices.js": "const test = require('node:test');\nconst assert = require('node:assert');\n"
        "const prices = require('../lib/prices');\n"
        "test('total', () => assert.strictEqual(prices.total([1, 2]), 3));\n"
        "test('discount', () => assert.strictEqual(prices.discount(200, 10), 180));\n"
        "test('vat', () => assert.strictEqual(prices.vat(100), 20));\n",
        ".gitignore": "node_modules/\n",
    },
    source="lib/prices.js",
    fixes=(
        ("Math.max(...prices)", "prices.reduce((sum, price) => sum + price, 0)"),
        ("(price * percent) / 100", "(price * (100 - percent)) / 100"),
        ("price * rates.VAT", "(price * rates.VAT) / 100"),
    ),
    tests=tuple(f"node --test --test-name-pattern='^{name}$' test/prices.js" for name in ("total", "discount", "vat")),
    check="npm test",
)
SHELL = Recipe(
    name="shell, since there is no node",
    files={
        "prices.sh": "total() { echo $(($1 - $2)); }\n"
        + PAD
        + "discount() { echo $(($1 * $2 / 100)); }\n"
        + PAD
        + "vat() { echo $(($1 * 20)); }\n",
        "test.sh": '. ./prices.sh\nset -e\ncase "${1:-all}" in all|total) test $(total 1 2) = 3;; esac\n'
        'case "${1:-all}" in all|discount) test $(discount 200 10) = 180;; esac\n'
        'case "${1:-all}" in all|vat) test $(vat 100) = 20;; esac\necho fine\n',
    },
    source="prices.sh",
    fixes=(("$1 - $2", "$1 + $2"), ("$1 * $2 / 100", "$1 * (100 - $2) / 100"), ("$1 * 20", "$1 * 20 / 100")),
    tests=tuple(f"sh test.sh {name}" for name in ("total", "discount", "vat")),
    check="sh test.sh",
)
RECIPES = (PYTHON, NODE if shutil.which("node") else SHELL)
RUNS = [*((recipe, None) for recipe in RECIPES), *((PYTHON, tier) for tier in offered() if tier is Tier.LANDLOCK)]


def git(project: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=project, capture_output=True, text=True, check=True)
    return done.stdout


def project_of(recipe: Recipe, root: Path) -> Path:
    """A repository of a few hundred files with one commit, and what it needs to run."""
    files = {f"docs/page{number}.md": f"# Page {number}\n" * 20 for number in range(OTHERS)} | dict(recipe.files)
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    recipe.prepare(root)
    git(root, "init", "-q", ".")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "a shop")
    trust(root)
    return root


def script_of(recipe: Recipe, place: Path) -> str:
    """A model (JSON is YAML) that runs the tests, fixes what they say, and runs them again."""
    run = {"tool_calls": [{"name": "run_terminal_cmd", "arguments": {"command": recipe.check}}]}
    edits = [
        {"name": "search_replace", "arguments": {"file_path": recipe.source, "old_string": old, "new_string": new}}
        for old, new in recipe.fixes
    ]
    steps = [run, {"tool_calls": edits}, run, {"when": "exit code 0", "text": "All tests pass."}, "They still fail."]
    place.write_bytes(msgspec.json.encode({"turns": [{"steps": steps}]}))
    return f"scripted/{place}"


def passes(project: Path, command: str) -> bool:
    return subprocess.run(["sh", "-c", command], cwd=project, capture_output=True, check=False).returncode == 0


async def played(engine: Engine, session: str) -> str:
    """One turn in which every command is allowed; how it ended."""
    await engine.submit(cmd.TurnSubmit(session=session, text="Fix the tests"))
    async with contextlib.aclosing(engine.events(session)) as stream:
        async for envelope in stream:
            match envelope.event:
                case ev.ApprovalRequested(id=identity):
                    await engine.submit(cmd.ApprovalAnswer(session=session, id=identity, decision="allow_once"))
                case ev.TurnFinished(reason=reason):
                    return reason
    return "no end"


@pytest.mark.parametrize(("recipe", "tier"), RUNS, ids=[f"{recipe.name}-{tier or 'best'}" for recipe, tier in RUNS])
async def test_a_bug_is_fixed_in_the_shadow_and_the_disk_follows_each_verdict(tmp_path, recipe, tier):
    project = await asyncio.to_thread(project_of, recipe, tmp_path / "project")
    before = tree(project)
    assert [passes(project, test) for test in recipe.tests] == [False] * 3
    script = script_of(recipe, tmp_path / "script.yaml")
    engine = Engine(project, options=EngineOptions(watch=False, model=script, tier=tier))
    try:
        opened = await engine.submit(cmd.SessionOpen())
        assert isinstance(opened, cmd.Ack), opened
        session = opened.session
        assert await played(engine, session) == "done"
        state = engine.state(session)
        results = [message.content for message in state.messages if isinstance(message, ToolMessage)]
        assert "exit code 1" in results[0]
        assert "exit code 0" in results[-1]
        assert state.messages[-1].content == "All tests pass."

        assert git(project, "status", "--porcelain") == ""
        assert {path: content for path, content in tree(project).items() if "__pycache__" not in path} == {
            path: content for path, content in before.items() if "__pycache__" not in path
        }
        assert list(state.changes) == [recipe.source]
        check = state.changes[recipe.source].check
        assert check is not None
        assert check.has_passed

        answer = await engine.query(q.DiffQuery(session=session, path=recipe.source))
        assert isinstance(answer, q.DiffAnswer)
        assert answer.diff is not None
        hunks = tuple(hunk.id for hunk in answer.diff.change.hunks)
        assert len(hunks) == 3
        for hunk_ids, expected in ((hunks[:2], [True, True, False]), (hunks[2:], [True] * 3)):
            verdict = cmd.HunkResolve(session=session, path=recipe.source, verdict="accept", hunks=hunk_ids)
            assert isinstance(await engine.submit(verdict), cmd.Ack)
            await engine.wait_idle(session)
            assert [passes(project, test) for test in recipe.tests] == expected
        assert git(project, "status", "--porcelain") == f" M {recipe.source}\n"
        assert state.changes == {}
    finally:
        await engine.close()
