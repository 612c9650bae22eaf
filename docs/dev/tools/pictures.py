"""The README's pictures, made by the program itself: `make pictures`."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Final

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from docs.dev.tools.photographer import ROOT, WIDE, OnScreen, live_as_a_stranger, write_settings


async def welcome(directory: Path) -> None:
    """The first start, without a key."""
    from tui.bridge import SessionRequest
    from tui.dialogs.provider import WelcomeDialog

    async with OnScreen(directory, SessionRequest()) as (app, photographer):
        await photographer.until(lambda: isinstance(app.screen, WelcomeDialog))
        await photographer.until(lambda: "looking" not in app.export_screenshot())
        await photographer.take("welcome")


async def whole_job(directory: Path) -> None:
    """The demo, from the first question to the command that asks."""
    from tui.bridge import SessionRequest
    from tui.review.diff.view import DiffView

    write_settings("confirm")
    async with OnScreen(directory, SessionRequest(demo=True)) as (app, photographer):
        await photographer.next_turn(1)
        await photographer.take("ask")
        await photographer.next_turn(2)
        await photographer.press("ctrl+t")
        await photographer.take("plan")
        await photographer.press("v")
        await photographer.take("plan-graph")
        await photographer.press("v", "enter", "j", "j", "c", *"Which tests hold this?", "enter")
        await photographer.until(lambda: photographer.state.comments)
        await photographer.take("plan-comments")
        await photographer.press("j", "d", "escape")
        await photographer.until(lambda: not photographer.state.comments)
        await photographer.next_turn(3)
        await photographer.press("ctrl+r")
        await photographer.until(lambda: app.main.query_one(DiffView).diff is not None)
        await photographer.press("j")
        await photographer.take("review")
        await photographer.take_small("review-small", "k", "j")
        await photographer.resize(WIDE)
        await photographer.press("ctrl+r", *"/accept all", "enter")
        await photographer.until(lambda: not photographer.state.changes)
        await photographer.press("enter")
        await photographer.until(lambda: photographer.state.approvals)
        await photographer.take("approval")
        await photographer.press("f2")
        await asyncio.sleep(0.6)  # the keys of an approval sleep for half a second
        await photographer.press("n")
        await photographer.until(lambda: not photographer.state.is_running)


async def searching(directory: Path) -> None:
    """A search of the demo's project, by what its code means."""
    from tui.bridge import SessionRequest
    from tui.search.dialogs import SearchDialog

    async with OnScreen(directory, SessionRequest(demo=True), watch=True) as (app, photographer):
        await photographer.until(lambda: photographer.state.index.state == "ready")
        await photographer.press("ctrl+f", *"what a basket costs")
        await photographer.until(lambda: isinstance(app.screen, SearchDialog) and app.screen.hit_list.hits)
        await photographer.press("down", "up")
        await photographer.take("search")


ASKS: Final = """\
- text: Two things decide how this goes.
  tool_calls:
    - name: ask_question
      arguments:
        title: Before I plan
        questions:
          - header: Store
            prompt: Where should sessions live? They are in memory today, so a restart logs everybody out.
            options:
              - {label: "PostgreSQL, beside the other tables", recommended: true}
              - {label: "Redis, with an expiry per key; a new service in every environment"}
              - {label: SQLite}
          - header: Login
            prompt: Which login?
            options: [{label: JWT}, {label: Cookie}]
"""


async def questions(directory: Path) -> None:
    """What the agent asks while it plans, as tabs."""
    from tui.bridge import SessionRequest

    os.chdir(directory.parent)  # so that the name of the script says nothing of this machine
    (directory.parent / "asks.yaml").write_text(ASKS)
    wish = SessionRequest(model="scripted/asks.yaml", mode="plan")
    async with OnScreen(directory, wish) as (_, photographer):
        await photographer.until(lambda: photographer.state.session_id)
        await photographer.press(*"Keep sessions over a restart", "enter")
        await photographer.until(lambda: photographer.state.awaited_question)
        await photographer.take("questions")
        await photographer.press("escape", "escape")
        await photographer.until(lambda: not photographer.state.is_running)


def _till(directory: Path) -> None:
    """A project with a fault, a model that finds it, and commands that run unasked."""
    from tests.support.debugging import FAULT, PRICES

    directory.mkdir()
    (directory / "prices.py").write_text(PRICES)
    (directory / "check.py").write_text(FAULT)
    (directory.parent / "debug.yaml").write_text((ROOT / "docs" / "dev" / "tools" / "debug-session.yaml").read_text())
    write_settings("auto")
    os.chdir(directory.parent)


async def debugging(directory: Path) -> None:
    """A fault that is found by evidence: the board when the fix is to be judged, and two runs on it."""
    from tui.bridge import SessionRequest
    from tui.debug.board import DebugBoard

    _till(directory)
    wish = SessionRequest(model="scripted/debug.yaml", mode="debug")
    async with OnScreen(directory, wish) as (app, photographer):
        await photographer.until(lambda: photographer.state.session_id)
        await photographer.press(*"The price of tea in USD is wrong", "enter")
        await photographer.until(lambda: photographer.state.debug.question)
        await photographer.until(lambda: app.main.query(DebugBoard))
        await photographer.take("debug")
        await photographer.press("v", "G")
        await photographer.take("debug-runs")
        await photographer.take_small("debug-small", "g")
        await asyncio.sleep(0.6)  # the keys of a card sleep for half a second
        await photographer.press("f")
        await photographer.until(lambda: not photographer.state.is_running)


TILL: Final = """\
RATE = 0.2


def gross(price):
    return price * (1 + RATE)


def show(price):
    return str(price)
"""
TODOS: Final = """\
---
name: Mend the till
overview: Four small things, and a release of them.
todos:
  - {id: rounding, content: Round the gross price, status: pending, verify: grep -q round till.py}
  - {id: showing, content: Show prices in euros, status: pending}
  - {id: docs, content: Write the README, status: pending}
  - {id: rate, content: gross() knows the rate, status: pending}
  - {id: release, content: Release it, status: pending, dependencies: [rounding, showing, docs, rate]}
---
# Mend the till

Four things that have nothing to do with each other, so they can be done at once.
"""


def _shop(directory: Path) -> None:
    """Two modules, of which one does not end."""
    directory.mkdir(exist_ok=True)
    (directory / "till.py").write_text(TILL)
    (directory / "check.py").write_text("import time\n\ntime.sleep(60)\n")
    os.chdir(directory.parent)


async def parallel(directory: Path) -> None:
    """Four subagents on four todos: two have ended and are merged, two are at work."""
    from tui.bridge import SessionRequest

    plan = directory / ".cursor" / "plans" / "till_5ca1ab1e.plan.md"
    plan.parent.mkdir(parents=True)
    plan.write_text(TODOS)
    _shop(directory)
    (directory.parent / "crew.yaml").write_text((ROOT / "docs" / "dev" / "tools" / "crew-session.yaml").read_text())
    async with OnScreen(directory, SessionRequest(model="scripted/crew.yaml")) as (_, photographer):
        await photographer.until(lambda: photographer.state.session_id)
        await photographer.press(*"/plans till", "enter")
        await photographer.until(lambda: photographer.state.todos)
        await photographer.press("P")
        crew = photographer.state.transcript.subagents
        await photographer.until(lambda: sum(bool(each.summary) for each in crew.values()) == 2)
        await photographer.until(lambda: sum("check.py" in str(each.acts[-1:]) for each in crew.values()) == 2)
        await photographer.take("plan-parallel")
        await photographer.press("escape", "escape")
        await photographer.until(lambda: not photographer.state.is_running)


async def tasks(directory: Path) -> None:
    """The roster: one task has ended, one runs a command, one asks."""
    from tui.bridge import SessionRequest

    _shop(directory)
    (directory.parent / "tasks.yaml").write_text((ROOT / "docs" / "dev" / "tools" / "tasks-session.yaml").read_text())
    async with OnScreen(directory, SessionRequest(model="scripted/tasks.yaml")) as (_, photographer):
        await photographer.until(lambda: photographer.state.session_id)
        await photographer.press(*"Show prices in euros, and document it", "enter")
        crew = photographer.state.transcript.subagents
        await photographer.until(lambda: any(each.summary for each in crew.values()))
        await photographer.until(lambda: any("check.py" in str(each.acts[-1:]) for each in crew.values()))
        await photographer.until(lambda: photographer.state.awaited_question)
        await photographer.press("f9", "j")
        await photographer.take("roster")
        await photographer.press("escape", "escape")
        await photographer.until(lambda: not photographer.state.is_running)


BEST: Final = {
    "quick": "int(price * (1 + RATE))",
    "careful": "round(price * (1 + RATE), 2)",
    "thorough": "round(price + price * RATE, 2)",
}
ROUNDS: Final = """\
- tool_calls:
    - name: search_replace
      arguments: {{file_path: till.py, old_string: price * (1 + RATE), new_string: "{}"}}
- tool_calls: [{{name: run_terminal_cmd, arguments: {{command: python3 -m unittest -q}}}}]
- Prices are rounded.
"""


TEST: Final = """\
import till, unittest
class Gross(unittest.TestCase):
    def test_cents(self):
        self.assertEqual(till.gross(1.99), 2.39)
"""


async def candidates(directory: Path) -> None:
    """Three candidates of one prompt, side by side."""
    from tui.bridge import SessionRequest

    _shop(directory)
    (directory / "test_till.py").write_text(TEST)
    for name, rounded in BEST.items():
        (directory.parent / name).write_text(ROUNDS.format(rounded))
    async with OnScreen(directory, SessionRequest(model="scripted/quick")) as (_, photographer):
        await photographer.until(lambda: photographer.state.session_id)
        await photographer.press(*f"/best {','.join(f'scripted/{name}' for name in BEST)} Round to cents", "enter")
        await photographer.until(lambda: any(each.kind == "turn_end" for each in photographer.state.blocks))
        await photographer.press(*"/best", "enter", "2", "space")
        await photographer.take("best")


PRICES: Final = '''\
"""Prices of the shop."""

RATE = 0.2


def total(prices):
    return sum(prices)


def member_total(prices):
    return total(prices)


def shipping(prices, country):
    return 5 if country == "FR" else 9


def label(price):
    return str(price) + " EUR"


def receipt(prices):
    return [label(price) for price in prices]
'''
PRICES_TEST: Final = """\
import prices, unittest


class Prices(unittest.TestCase):
    def test_total(self):
        self.assertEqual(prices.total([1, 2]), 3)

    def test_members_pay_less(self):
        self.assertEqual(prices.member_total([100]), 100)

    def test_shipping(self):
        self.assertTrue(prices.shipping([1], "FR"))

    def test_receipt(self):
        self.assertEqual(prices.receipt([1]), ["1 EUR"])
"""
EDITS: Final = (
    ("prices.py", '"""Prices of the shop."""', '"""Prices of the shop, in euros."""'),
    ("prices.py", "    return sum(prices)", "    return round(sum(prices), 2)"),
    (
        "prices.py",
        "    return total(prices)",
        "    return total(prices) * 0.9 if total(prices) >= 50 else total(prices)",
    ),
    (
        "prices.py",
        '    return 5 if country == "FR" else 9',
        '    return 0 if sum(prices) > 100 else 5 if country == "FR" else 9',
    ),
    ("prices.py", '    return str(price) + " EUR"', '    return f"{price} EUR"'),
    ("test_prices.py", "prices.member_total([100]), 100", "prices.member_total([100]), 90"),
)


def _write_proof_session(directory: Path) -> None:
    """A project with unit tests, and a model that changes prices and runs them."""
    directory.mkdir()
    (directory / "prices.py").write_text(PRICES)
    (directory / "test_prices.py").write_text(PRICES_TEST)
    reads = [{"name": "read_file", "arguments": {"target_file": name}} for name in ("prices.py", "test_prices.py")]
    edits = [
        {"name": "search_replace", "arguments": {"file_path": path, "old_string": old, "new_string": new}}
        for path, old, new in EDITS
    ]
    run = {"name": "run_terminal_cmd", "arguments": {"command": "python3 -m unittest -q"}}
    script = [{"tool_calls": reads}, {"tool_calls": edits}, {"tool_calls": [run]}, "Members pay a tenth less from 50."]
    (directory.parent / "proof.yaml").write_text(json.dumps(script))  # JSON is YAML
    write_settings("auto")
    os.chdir(directory.parent)


async def proving(directory: Path) -> None:
    """What the tests say about each hunk: in the diff, and as the list of what to look at."""
    from tui.bridge import SessionRequest
    from tui.review.diff.view import DiffView

    _write_proof_session(directory)
    async with OnScreen(directory, SessionRequest(model="scripted/proof.yaml")) as (app, photographer):
        await photographer.until(lambda: photographer.state.session_id)
        await photographer.press(*"Members pay a tenth less from 50 euros", "enter")
        await photographer.until(lambda: photographer.state.review.proof.finished)
        await photographer.press("ctrl+r")
        await photographer.until(lambda: app.main.query_one(DiffView).diff is not None)
        await photographer.press("j")
        await photographer.take("proof")
        await photographer.press("l")
        await photographer.take("proof-list")
        await photographer.press("l")


def main() -> None:
    """Make every picture."""
    with tempfile.TemporaryDirectory(prefix="pictures-") as name:
        scratch = Path(name)
        live_as_a_stranger(scratch)
        play_all(scratch)


def play_all(scratch: Path) -> None:
    """Play every scene that the README shows."""
    shop = scratch / "shop"
    shop.mkdir()
    asyncio.run(welcome(shop))
    asyncio.run(searching(shop))
    asyncio.run(whole_job(shop))
    asyncio.run(questions(shop))
    asyncio.run(debugging(scratch / "till"))
    asyncio.run(parallel(scratch / "shop-of-four"))
    asyncio.run(tasks(scratch / "shop-of-three"))
    asyncio.run(candidates(scratch / "shop-of-many"))
    asyncio.run(proving(scratch / "shop-of-prices"))


if __name__ == "__main__":
    main()
