from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from contextlib import asynccontextmanager

import pytest

from core.engine.shared.project_index import ProjectIndex
from core.index.database import FILE_NAME, IndexFailed, lock_for_building
from core.index.reader import IndexReader
from tests.unit.index.index_content import break_table


def show_all(_):
    return True


@pytest.fixture
def project(tmp_path):
    root = tmp_path / "project"
    root.mkdir()
    (root / "basket.py").write_text(
        "class Basket:\n    def add(self, item):\n        self.items.append(price_of(item))\n"
    )
    return root


class Progress(list):
    """What an index has told of its progress, and a wait for the next of it: who asks again and again instead takes the
    time of the builder, which is nice."""

    def __init__(self):
        self._news = asyncio.Event()

    def tell(self, event):
        self.append(event.status)
        self._news.set()

    async def until(self, condition):
        async with asyncio.timeout(60):
            while True:
                self._news.clear()
                if await condition():
                    return True
                await self._news.wait()


@asynccontextmanager
async def opened(project, *, enabled=True, progress=None):
    tell = (lambda status: None) if progress is None else progress.tell
    index = ProjectIndex(project, project.parent / "state", tell, is_enabled=enabled)
    try:
        yield index
    finally:
        await index.close()


async def test_it_is_built_by_a_process_and_tells_how_far_it_is(project):
    progress = Progress()
    async with opened(project, progress=progress) as index:
        status = await index.wait_ready(60)
        assert (status.state, status.files, status.problem) == ("ready", 1, "")
        places = await index.find_symbols(["Basket.add", "basket", "nothing"])
        assert {name: [match.symbol for match in matches] for name, matches in places.items()} == {
            "Basket.add": ["Basket.add"],
            "basket": ["Basket"],
        }
        assert (places["Basket.add"][0].start, places["Basket.add"][0].signature) == (2, "def add(self, item):")
        names = ["price_of", "state_dict", "items", 'a_"b']
        assert await index.read(lambda reader: reader.count_files(names)) == {"price_of": 1, "state_dict": 0}
    assert progress[-1].state == "ready"


async def test_a_builder_that_is_being_started_ends_with_the_index(project):
    state = project.parent / "state"
    index = ProjectIndex(project, state, lambda status: None, is_enabled=True)
    await asyncio.gather(index.start(), index.close())
    lock = lock_for_building(state / FILE_NAME)
    assert lock is not None, "nobody builds any more"
    os.close(lock)


async def test_a_changed_file_is_found_after_it_was_told(project):
    progress = Progress()
    async with opened(project, progress=progress) as index:
        await index.wait_ready(60)
        (project / "new.py").write_text("def fresh_name():\n    pass\n")
        index.on_disk_changed(("new.py",))

        async def is_found():
            return bool(await index.find_symbols(["fresh_name"]))

        assert await progress.until(is_found)
        (project / "new.py").unlink()
        index.on_disk_changed(())

        async def is_gone():
            return not await is_found()

        assert await progress.until(is_gone)


async def test_a_second_process_reads_and_takes_over_when_the_first_is_gone(project):
    progress = Progress()
    async with opened(project) as first:
        await first.wait_ready(60)
        async with opened(project, progress=progress) as second:
            assert (await second.wait_ready(60)).state == "ready"
            assert not second._link.is_ours
            assert await second.find_symbols(["Basket"])
            await first.close()
            (project / "new.py").write_text("def fresh_name():\n    pass\n")
            second.on_disk_changed(("new.py",))

            async def is_found():
                return bool(await second.find_symbols(["fresh_name"]))

            assert await progress.until(is_found)
            assert second._link.is_ours


async def test_a_builder_that_is_killed_is_started_again(project, monkeypatch):
    monkeypatch.setattr("core.engine.shared.project_index.pause", lambda seconds: asyncio.sleep(0))
    progress = Progress()
    async with opened(project, progress=progress) as index:
        await index.wait_ready(60)
        process = index._link._process
        (project / "new.py").write_text("def fresh_name():\n    pass\n")
        os.kill(process.pid, signal.SIGKILL)
        await process.wait()

        async def is_found():
            return bool(await index.find_symbols(["fresh_name"]))

        assert await progress.until(is_found)
        assert index._link.is_ours
        assert index._link._process is not process


async def test_one_that_is_switched_off_writes_nothing_and_says_why(project):
    async with opened(project, enabled=False) as index:
        index.on_disk_changed(())
        assert await index.find_symbols(["Basket"]) == {}
        assert await index.build_repo_map(1_000, (), show_all) == ""
        with pytest.raises(IndexFailed):
            await index.read(IndexReader.read_status)
        assert (index.status().state, "index.enabled" in index.status().problem) == ("off", True)
    assert not (project.parent / "state").exists()


async def test_a_place_that_cannot_be_written_is_told(project):
    (project.parent / "state").write_text("a file")
    async with opened(project) as index:
        status = await index.wait_ready(60)
        assert status.state == "failed"
        assert "can't be created" in status.problem
        assert await index.find_symbols(["Basket"]) == {}


async def test_a_damaged_index_is_made_anew_and_that_is_said(project):
    (project.parent / "state").mkdir()
    (project.parent / "state" / FILE_NAME).write_bytes(b"no index" * 1_000)
    async with opened(project) as index:
        status = await index.wait_ready(60)
        assert (status.state, "being rebuilt" in status.problem) == ("ready", True)
        assert await index.find_symbols(["Basket"])


async def test_a_map_that_two_ask_for_is_loaded_once(project, monkeypatch):
    loads, load = [], IndexReader.load_map
    monkeypatch.setattr(IndexReader, "load_map", lambda reader: loads.append(reader) or load(reader))
    async with opened(project) as index:
        await index.wait_ready(60)
        await asyncio.gather(*(index.build_repo_map(200, (), show_all) for _ in range(3)))
    assert len(loads) == 1


async def test_the_map_names_what_is_used_elsewhere(project, tmp_path):
    (project / "shop.py").write_text(
        "def find_best_price(item):\n    return 1\n\n\ndef unused_function_here():\n    return 2\n" + "\n" * 9
    )
    for name in ("a", "b"):
        text = f"from shop import find_best_price\n\n\ndef {name}():\n    find_best_price(1)\n"
        (project / f"{name}.py").write_text(text)
    async with opened(project) as index:
        await index.wait_ready(60)
        assert await index.build_repo_map(200, (), show_all) == "shop.py:\n  def find_best_price(item)"
        assert await index.build_repo_map(2, (), show_all) == ""
        assert await index.build_repo_map(200, ("shop.py",), lambda path: path != "shop.py") == ""
    unstarted = ProjectIndex(project, tmp_path / "state", lambda status: None, is_enabled=True)
    assert await unstarted.build_repo_map(200, (), show_all) == "shop.py:\n  def find_best_price(item)"
    await unstarted.close()


async def test_after_builders_that_die_nobody_asks_for_another_one_or_for_its_progress(project, monkeypatch):
    monkeypatch.setattr("core.engine.shared.project_index.pause", lambda seconds: asyncio.sleep(0))
    dies = [sys.executable, "-c", "raise SystemExit(3)"]
    monkeypatch.setattr("core.engine.shared.project_index.build_builder_command", lambda *_: dies)
    async with opened(project) as index:
        assert (await index.wait_ready(60)).state == "failed"
        index.on_disk_changed(("basket.py",))
        await index._tasks.wait()
        assert index.status().state == "failed"


async def test_who_is_cancelled_leaves_the_index_to_the_next_when_its_thread_has_ended(project):
    async with opened(project) as index:
        begun, go_on, seen = threading.Event(), threading.Event(), []

        def work(_):
            begun.set()
            go_on.wait()
            seen.append("first")

        first = asyncio.create_task(index.read(work))
        await asyncio.to_thread(begun.wait)
        second = asyncio.create_task(index.read(lambda _: seen.append("second")))
        first.cancel()
        await asyncio.sleep(0)
        await asyncio.to_thread(lambda: None)
        assert seen == []
        go_on.set()
        await second
        assert (seen, first.cancelled()) == (["first", "second"], True)


async def test_an_index_that_turns_out_to_be_damaged_is_made_anew_and_that_is_said(project):
    progress = Progress()
    async with opened(project, progress=progress) as index:
        await index.wait_ready(60)
        break_table(project.parent / "state" / FILE_NAME, "symbols_by_name")

        async def is_found_again():
            return await index.find_symbols(["Basket"])

        assert not await is_found_again()
        assert await progress.until(is_found_again)
        assert any("damaged" in status.problem and "being rebuilt" in status.problem for status in progress)


async def test_a_builder_ends_when_it_has_nothing_to_do_and_a_change_starts_the_next_one(project, monkeypatch):
    monkeypatch.setattr("core.engine.shared.project_index._IDLE_SECONDS", 0.1)
    progress = Progress()
    async with opened(project, progress=progress) as index:
        await index.wait_ready(60)
        for number in range(3):
            builder = index._link._process
            async with asyncio.timeout(30):
                assert await builder.wait() == 0
            assert await index.find_symbols(["Basket"])  # queries need no builder
            (project / f"late{number}.py").write_text(f"class Late{number}:\n    pass\n")
            index.on_disk_changed((f"late{number}.py",))

            async def is_indexed(name=f"Late{number}"):
                return bool(await index.find_symbols([name]))

            assert await progress.until(is_indexed)
            assert index._link._process is not builder
        assert not index._link.has_given_up


async def test_changes_while_an_idle_builder_ends_are_not_lost(project, monkeypatch):
    monkeypatch.setattr("core.engine.shared.project_index._IDLE_SECONDS", 60)
    progress = Progress()
    async with opened(project, progress=progress) as index:
        await index.wait_ready(60)
        for number in range(3):
            index._link._process.stdin.close()  # as the timer does
            (project / f"late{number}.py").write_text(f"class Late{number}:\n    pass\n")
            index.on_disk_changed((f"late{number}.py",))
            index.on_disk_changed(())

            async def is_indexed(name=f"Late{number}"):
                return bool(await index.find_symbols([name]))

            assert await progress.until(is_indexed)
