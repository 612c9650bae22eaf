"""The screens of the gallery that the README does not show, each brought about by keys over a real engine."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

from docs.dev.tools.photographer import ROOT, OnScreen, write_settings

if TYPE_CHECKING:
    from docs.dev.tools.photographer import Photographer

SCRIPT: Final = "scripted/gallery-session.yaml"
AUTHOR: Final = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
MINE: Final = "    return int(cents * rate / 100 + 0.5)  # half up\n"
WATCH: Final = """\
import time, unittest
unittest.main(module="tests.test_money", exit=False, verbosity=2)
open("last-run.txt", "w").write("4 tests of tests/test_money.py")
print("waiting for a change", flush=True)
time.sleep(600)
"""
SERVED: Final = ["gpt-oss-120b", "qwen3-coder-480b", "qwen3-coder-30b", "llama-3.3-70b", "devstral-small"]


def make_project(directory: Path) -> None:
    """A copy of the demo's project as a repository, on a branch with a commit of its own."""
    shutil.copytree(ROOT / "core" / "demo" / "sample", directory, ignore=shutil.ignore_patterns("__pycache__"))
    (directory / "watch.py").write_text(WATCH)
    shutil.copy(ROOT / "docs" / "dev" / "tools" / "gallery-session.yaml", directory.parent)
    _git(directory, "init", "--quiet", "--initial-branch=main")
    for name, address in (("user.name", "Ada"), ("user.email", "ada@example.org")):
        _git(directory, "config", name, address)
    _commit(directory, "Count what a basket costs")
    _git(directory, "checkout", "--quiet", "-b", "wide-receipts")
    receipt = directory / "till" / "receipt.py"
    receipt.write_text(receipt.read_text().replace("WIDTH = 32", "WIDTH = 40"))
    _commit(directory, "Give receipts more room")
    os.chdir(directory.parent)


def _commit(directory: Path, message: str) -> None:
    _git(directory, "add", "--all")
    _git(directory, "commit", "--quiet", "--message", message)


def _git(directory: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", str(directory), *arguments], check=True, capture_output=True)


async def beginning(directory: Path) -> None:
    """The demo: its first frame, the menus over it, the tour, a hunk that is edited, and the receipt of a turn."""
    from tui.bridge import SessionRequest
    from tui.review.diff.view import DiffView

    async with OnScreen(directory, SessionRequest(demo=True)) as (app, photographer):
        await photographer.until(lambda: photographer.state.suggestion is not None and "box" in photographer.read())
        await photographer.take("start")
        await _take(photographer, "palette", "ctrl+p")
        await _take(photographer, "help", "f1")
        await _take(photographer, "settings", *"/config", "enter")
        await _take(photographer, "commands", "/")
        await photographer.press("backspace")
        await _take(photographer, "finder", *"@mon")
        await photographer.press(*["backspace"] * 4, *"/tour", "enter")
        await photographer.take("tour")
        await photographer.press("escape")
        for number in (1, 2, 3):
            await photographer.next_turn(number)
        await photographer.press("ctrl+r")
        await photographer.until(lambda: app.main.query_one(DiffView).diff is not None)
        await asyncio.sleep(0.6)  # the keys of a review sleep for half a second
        await _take(photographer, "editor", "e")
        await photographer.press(*"/accept all", "enter")
        await photographer.until(lambda: not photographer.state.changes)
        await _ask(photographer, "")
        await photographer.take("receipt")


async def _take(photographer: Photographer, name: str, *keys: str) -> None:
    """Take what some keys open, and close it."""
    await photographer.press(*keys)
    await photographer.take(name)
    await photographer.press("escape")
    if not photographer.is_at_prompt():
        await photographer.press("escape")


async def working(directory: Path) -> None:
    """A day in a repository: an answer on its way, a review of a branch, a job, a conflict, a commit, the sessions."""
    from tests.support.provider_server import provider_server
    from tui.bridge import SessionRequest

    make_project(directory)
    os.environ["AGENT_TUI_SCRIPT_SPEED"] = "1"  # the script says itself what is slow
    async with provider_server([], models=SERVED) as server:
        write_settings("auto", f'[providers.lab]\nbase_url = "{server.openai_url}"\n')
        async with OnScreen(directory, SessionRequest(model=SCRIPT)) as (_, photographer):
            await photographer.until(lambda: photographer.state.session_id)
            await answering(photographer)
            await finding(photographer)
            await photographer.press(*"/tag review", "enter")
            await _begin_anew(photographer)
            await _ask(photographer, "Watch the tests of the till")
            await photographer.press(*"/jobs", "enter")
            await photographer.until(lambda: "waiting for a change" in photographer.read())
            await _take(photographer, "jobs")
            await _take(photographer, "models", *"/model", "enter")
            await photographer.press(*"/jobs all", "enter")
            await photographer.until(lambda: not photographer.state.jobs)
            await _begin_anew(photographer)
            await settling(directory, photographer)
            await _take(photographer, "sessions", *"/sessions", "enter", *"disc")
    async with OnScreen(directory, SessionRequest(model=SCRIPT)) as (_, photographer):
        await photographer.until(lambda: "Recent" in photographer.read())
        await photographer.press("down")
        await photographer.take("home")
    os.environ["AGENT_TUI_SCRIPT_SPEED"] = "0"


async def answering(photographer: Photographer) -> None:
    """An answer that has come half."""
    await photographer.press(*"How do discounts work?", "enter")
    await photographer.until(lambda: "Line.discount" in photographer.read())
    await photographer.take("streaming")
    await photographer.press("escape")
    await photographer.until(lambda: not photographer.state.is_running)


async def finding(photographer: Photographer) -> None:
    """What a review of the branch has found."""
    await _ask(photographer, "/review main")
    await photographer.press("shift+f8")
    await photographer.until(lambda: "printer" in photographer.read())
    await photographer.take("findings")
    await photographer.press("escape")


async def settling(directory: Path, photographer: Photographer) -> None:
    """A file that the user and the agent have both changed, and a commit of what was accepted of the others."""
    from tui.dialogs.conflict import ConflictDialog

    await _ask(photographer, "Round half up, and fit the receipt to the printer")
    money = directory / "till" / "money.py"
    money.write_text(money.read_text().replace("    return round(cents * rate / 100)\n", MINE))
    await photographer.press(*"/accept till/discount.py", "enter", *"/accept till/receipt.py", "enter")
    await photographer.until(lambda: len(photographer.state.changes) == 1)
    await photographer.press("ctrl+r")
    await asyncio.sleep(0.6)  # the keys of a review sleep for half a second
    await photographer.press("a")
    await photographer.until(lambda: photographer.state.changes["till/money.py"].conflict)
    await photographer.press("t")
    await photographer.until(lambda: photographer.shows(ConflictDialog))
    await photographer.take("conflict")
    await photographer.press("escape", "escape")
    await _take(photographer, "commit", *"/commit", "enter")


async def _begin_anew(photographer: Photographer) -> None:
    await photographer.press(*"/new", "enter")
    await photographer.until(lambda: not photographer.state.blocks)


async def _ask(photographer: Photographer, prompt: str) -> None:
    """Send a prompt ("" = the suggested one), until its turn has ended."""
    ended = sum(block.kind == "turn_end" for block in photographer.state.blocks)
    await photographer.press(*prompt, "enter")
    await photographer.until(
        lambda: (
            sum(block.kind == "turn_end" for block in photographer.state.blocks) > ended
            and not photographer.state.is_running
        )
    )


def play_all(scratch: Path) -> None:
    """Play every scene."""
    (scratch / "sample").mkdir()
    asyncio.run(beginning(scratch / "sample"))
    asyncio.run(working(scratch / "shop-of-ada"))
