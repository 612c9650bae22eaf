"""An hour of work, in tmux at 120 by 40, against a model server on loopback: what the screen shows at every stop, and
what the repository holds at the end.

Each stop is written to `hour/NN-name.txt`: `pytest tests/integration/test_recorded_hour.py --basetemp=DIR` records it.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support.commits import git
from tests.support.program import ROOT, environment
from tests.support.provider_server import provider_server
from tests.support.provider_streams import Call, Step
from tests.support.terminals import TMUX, Tmux

TAX = "RATE = 0.2\n\n\ndef add_tax(price):\n    return price + RATE\n"
BASKET = '''\
"""What somebody has put into the basket."""

from till.tax import add_tax


def total(prices):
    return sum(add_tax(price) for price in prices)


def count(prices):
    return len(prices)


def is_empty(prices):
    return len(prices) == 0
'''
RECEIPT = "from till.basket import total\n\n\ndef receipt(prices):\n    return str(total(prices))\n"
TEST = """\
import unittest

from till.basket import total


class Total(unittest.TestCase):
    def test_nothing(self):
        self.assertEqual(total([]), 0)
"""
NOTHING = "self.assertEqual(total([]), 0)"
CASE = "    def test_tax(self):\n        self.assertEqual(total([10, 20]), 36.0)\n"
SIZE = (120, 40)


def replaces(path: str, old: str, new: str) -> Call:
    return Call(name="search_replace", arguments={"file_path": path, "old_string": old, "new_string": new})


def runs(command: str) -> Call:
    return Call(name="run_terminal_cmd", arguments={"command": command})


def reads(*paths: str) -> list[Call]:
    return [Call(name="read_file", arguments={"target_file": path}) for path in paths]


FILES = ("till/tax.py", "till/basket.py", "till/receipt.py", "test_till.py")
SCRIPT: list[Step | str | Mapping[str, Any]] = [
    # The change in four files, and the tests
    Step(text="The tax is added as if it were a price. Let me look.", calls=reads(*FILES)),
    Step(
        calls=[
            replaces("till/tax.py", "price + RATE", "price * (1 + RATE)"),
            replaces("till/basket.py", "return len(prices) == 0", "return not prices"),
            replaces("till/receipt.py", "str(total(prices))", 'f"{total(prices)} EUR"'),
            replaces("test_till.py", f"{NOTHING}\n", f"{NOTHING}\n\n{CASE}"),
        ]
    ),
    Step(calls=[runs("python3 -m unittest -q")]),
    "The tax is a share now, and a **test** holds it:\n\n- `add_tax` multiplies\n- the receipt names the currency",
    # Two comments
    Step(
        calls=[
            replaces("till/receipt.py", "{total(prices)} EUR", "{total(prices):.2f} EUR"),
            replaces("till/tax.py", "RATE = 0.2\n", "RATE = 0.2  # of the price\n"),
        ]
    ),
    Step(calls=[runs("python3 -m unittest -q")]),
    "Both are done: two places after the point, and the rate says what it is of.",
    # The next day
    Step(calls=[replaces("till/basket.py", '"""What somebody has put into the basket."""', '"""The basket."""')]),
    "The docstring is shorter.",
]  # fmt: skip


SELECTED = re.compile(r"▌~ (?P<path>\S+)")
COMMENTS = {"till/receipt.py": "Two places after the point", "till/tax.py": "Say what the rate is of"}
TEXTS: list[Step | str | Mapping[str, Any]] = [
    "== 1 ==\nMend the tax and show the currency",
    "== 1 ==\nAdd the tax as a share\n== 2 ==\nShow two places, and say what the rate is of",
    "Tax as a share of the price\n\nThe tax was added as if it were a price.",
]


def find_play(body: Mapping[str, Any]) -> str:
    return "turns" if body.get("tools") else "texts"


class Hour:
    """A window in which the program runs, and its record."""

    def __init__(self, tmux: Tmux, record: Path) -> None:
        self._tmux, self._record, self._stop = tmux, record, 0
        record.mkdir()

    def sees(self, *words: str) -> str:
        """Wait until all of these words stand on the screen together; return it."""
        while True:
            for word in words:
                screen = self._tmux.until(word)
            if all(word in screen for word in words):
                return screen

    def stop(self, name: str, *words: str) -> None:
        """A stop of the hour: what has to be seen is, and is written down."""
        self._stop += 1
        (self._record / f"{self._stop:02}-{name}.txt").write_text(self.sees(*words))

    def press(self, *keys: str) -> None:
        """Press keys as a hand does, once what the last one did is drawn: what comes faster is taken for a paste."""
        self._tmux.until_still()
        self._tmux.run("send-keys", *keys)

    def press_until(self, seen: str, key: str, *, absent_text: str = "", looks: int = 20) -> None:
        """Press a key again until it has had its effect: what has just come up takes no key for half a second."""
        for _ in range(120):
            self.press(key)
            with suppress(TimeoutError):
                self._tmux.until(seen, looks=looks, without=absent_text)
                return
        raise TimeoutError(f"{key} did not lead to {seen!r}: {self._tmux.run('capture-pane', '-p')}")

    def go_to(self, path: str) -> None:
        """Go to the hunk of a file in the review, back again where a slow screen had a key pressed once too often."""
        for _ in range(120):
            if (selected := self._read_selected()) == path:
                return
            self.press("k" if selected > path else "j")
            with suppress(TimeoutError):
                self._tmux.until("▌~ ", looks=20, without=f"▌~ {selected}")
        raise TimeoutError(f"{path} was not reached: {self._tmux.run('capture-pane', '-p')}")

    def _read_selected(self) -> str:
        match = SELECTED.search(self._tmux.until("▌~ "))
        return match["path"] if match is not None else ""

    def types(self, text: str) -> None:
        """Type a line and send it."""
        self._tmux.run("send-keys", "-l", text)
        self.sees(text[:60])
        self.press("Enter")


@pytest.fixture
def project(tmp_path: Path, isolated: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"):
        monkeypatch.delenv(name)  # so that those are the author who are in the configuration
    root = tmp_path / "shop"
    (root / "till").mkdir(parents=True)
    texts = {
        **dict(zip(FILES, (TAX, BASKET, RECEIPT, TEST), strict=True)),
        "till/__init__.py": "",
        "README.md": "# Till\n",
    }
    for name, text in texts.items():
        (root / name).write_text(text)
    (isolated / ".gitconfig").write_text("[user]\n\tname = Ada\n\temail = ada@example.org\n")
    git(root, "init", "-q", "-b", "main")
    git(root, "add", ".")
    git(root, "commit", "-qm", "Add a till")
    git(tmp_path, "init", "-q", "--bare", "-b", "main", "origin.git")
    git(root, "remote", "add", "origin", str(tmp_path / "origin.git"))
    git(root, "push", "-q", "-u", "origin", "main")
    return root


def morning(hour: Hour, project: Path) -> None:
    """A change in four files, the tests, and comments on two hunks, which the agent answers."""
    hour.stop("start", "Ask for a change", "sandboxed", "Tour 1/5 · Type @")
    hour.types("Why is the tax of @till/tax.py wrong? Mend it, and test it")
    hour.stop(
        "turn", "the receipt names the currency", "Ran python3 -m unittest -q · 2 passed", "4 to review", "f3 trust"
    )
    assert git(project, "status", "--porcelain") == ""
    hour.press_until("Ask for a change", "F3", absent_text="f3 trust")
    hour.press_until("Tour 3/5", "BTab")
    hour.types("/mode agent")
    hour.sees(" Agent   openai")
    hour.press("C-r")
    hour.stop("review", "Review 4", "hunk 1/1", "a accept")
    for path, comment in COMMENTS.items():
        hour.go_to(path)
        hour.press_until("enter keep  esc back", "c")
        hour.types(comment)
        hour.sees(f"❝ {comment}")
    hour.press("S")
    hour.stop("comments", "Your comments, as one message", *COMMENTS.values())
    hour.press_until("My comments on your pending changes", "s", absent_text="as one message")
    hour.press("Escape")  # at this width the review covers the conversation
    hour.stop("answered", "Tour 4/5", "says what it is of.", "{total(prices):.2f} EUR")


def noon(hour: Hour) -> None:
    """What is right is accepted, and becomes two commits and a pull request."""
    hour.types("/accept all")
    hour.stop("accepted", "u undo", "Tour 5/5")
    hour.press("F1")
    hour.stop("help", "Keys: Prompt")
    hour.press_until("/commit commits what you accepted", "Escape", absent_text="Keys: Prompt")
    hour.types("/commit")
    hour.stop("commit", "on main · one commit", "Mend the tax and show the currency")
    for split in ("one per todo", "one per prompt"):
        hour.press_until(split, "F2", looks=200)
    hour.stop("commit-split", "one per prompt", "Add the tax as a share")
    hour.press_until("Committed", "C-s", absent_text="Commit what you accepted", looks=200)
    hour.stop("committed", "Committed")
    hour.types("/pr")
    hour.stop("pull-request", "Tax as a share")
    hour.press_until("Pushed", "C-s")
    hour.stop("pushed", "Pushed")
    hour.press("C-q")


def next_day(hour: Hour) -> None:
    """The session goes on in a new process; what was asked there is gone back on, and all of it is exported."""
    hour.stop("resumed", "Show two places, and say what the rate is of", "Ask for a change")
    hour.types("Shorten the docstring of the basket")
    hour.stop("second-turn", "The docstring is shorter.", "1 to review")
    hour.press("Escape")
    hour.press_until("Rewind to before", "Escape")
    hour.stop("rewind", "Shorten the docstring")
    hour.press("Enter")
    hour.press_until("▌ Shorten the docstring", "b", absent_text="Rewind to before")
    hour.stop("rewound", "▌ Shorten the docstring")
    hour.press_until("Ask for a change", "C-c")
    hour.types("/export md ../hour.md")
    hour.stop("exported", "Saved: ")
    hour.press("C-q")


@pytest.mark.skipif(not TMUX, reason="there is no tmux here")
@pytest.mark.timeout(1_800)  # a minute and a quarter on a machine at rest, all of it waiting for the screen
async def test_an_hour_of_work(project: Path, tmp_path: Path) -> None:
    plays = {"turns": SCRIPT, "texts": TEXTS}
    async with provider_server(plays=plays, find_play=find_play, strict=True) as server:
        tmux = Tmux(tmp_path)
        hour = Hour(tmux, tmp_path / "hour")
        variables = {name: value for name, value in environment(server).items() if name != "TERM"}  # which tmux says
        program = [sys.executable, str(ROOT / "agent_tui.py"), str(project), "--model", "openai/tiny-1"]

        def pass_the_time() -> None:
            tmux.start(*program, size=SIZE, environment=variables)
            morning(hour, project)
            noon(hour)
            tmux.until_ended()
            tmux.start(*program[:3], "-c", size=SIZE, environment=variables)
            next_day(hour)
            tmux.until_ended()

        try:
            await asyncio.to_thread(pass_the_time)
        finally:
            tmux.run("kill-server")
    commits = git(project, "log", "--format=%an: %s", "--name-only").split("\n")
    assert [line for line in commits if line][:6] == [
        "Ada: Show two places, and say what the rate is of", "till/receipt.py", "till/tax.py",
        "Ada: Add the tax as a share", "test_till.py", "till/basket.py",
    ]  # fmt: skip
    assert git(project, "status", "--porcelain") == ""
    pushed = git(tmp_path / "origin.git", "for-each-ref", "--format=%(objectname)", "refs/heads").split()
    assert git(project, "rev-parse", "HEAD").strip() in pushed
    assert (project / "till" / "basket.py").read_text() == BASKET.replace("len(prices) == 0", "not prices")
    exported = (tmp_path / "hour.md").read_text()
    assert [
        comment for comment in (*COMMENTS.values(), "the receipt names the currency") if comment not in exported
    ] == []
