"""How fast the panes are, as functions that a benchmark can call: each returns seconds by name."""

from __future__ import annotations

from time import perf_counter
from typing import Any

from msgspec.structs import replace
from textual.app import App

from core.protocol.documents import Plan, Todo
from core.protocol.queries import TreeAnswer, TreeEntry
from core.protocol.review import ChangeDiff
from tests.tui.panes_case import PaneApp, plan_app
from tests.tui.review_case import Block, ReviewApp, diff_of
from tui.files.file_tree import FileTree
from tui.plan.panel import PlanPanel
from tui.review.diff.view import DiffView


def large_diff(count: int = 10_000) -> ChangeDiff:
    """A diff of about `count` lines: every twentieth line of a Python file is replaced."""
    blocks: list[Block] = []
    for number in range(count // 20):
        body = "\n".join(f"    value_{number}_{index} = compute({index}, 'text') + {number}" for index in range(17))
        blocks.append((" ", f"def step_{number}(first: int, second: str) -> None:\n{body}"))
        blocks.append(("-+", f"    return old_{number}(first)=>    return new_{number}(first, second)  # {number}"))
    return diff_of("src/large.py", blocks)


def draw(app: App[Any]) -> None:
    update = app.screen._compositor.render_update(full=True)
    assert update.render_segments(app.console)  # type: ignore[union-attr]


async def diff_speed(count: int = 10_000, steps: int = 200, *, split: bool = False) -> dict[str, float]:
    """`open`: from the data to the first frame; `step_*`: one row of scrolling until it is drawn; `jump_*`: a page."""
    app = ReviewApp([])
    async with app.run_test(size=(160 if split else 120, 40)) as pilot:
        await pilot.pause()
        view, diff = app.query_one(DiffView), large_diff(count)
        view.is_split_wanted = split
        started = perf_counter()
        view.show(diff, 0)
        await pilot.pause()
        timings = {"open": perf_counter() - started}
        await app.workers.wait_for_complete()
        for name, size in (("step", 1), ("jump", 37)):
            times = []
            for index in range(steps):
                started = perf_counter()
                view.scroll_to(y=(index + 1) * size, animate=False)
                draw(app)
                times.append(perf_counter() - started)
                await pilot.pause(0)
            times.sort()
            timings |= {f"{name}_median": times[steps // 2], f"{name}_p95": times[steps * 95 // 100]}
        return timings


async def tree_speed(count: int = 50_000, directories: int = 500) -> dict[str, float]:
    """`open`: the first frame of a tree of `count` files; `flat`: one directory that holds them all."""
    app = PaneApp(lambda pane_app: FileTree(pane_app.tree))
    app.project = {"": [(f"d{number}", "directory", False) for number in range(directories)]}
    started = perf_counter()
    async with app.run_test(size=(40, 40)) as pilot:
        await app.workers.wait_for_complete()
        await pilot.pause()
        timings = {"open": perf_counter() - started}
        flat = TreeAnswer(
            path="d0", entries=tuple(TreeEntry(name=f"f{index}.py", kind="file") for index in range(count))
        )

        async def load(_: str) -> TreeAnswer:
            return flat

        tree = app.query_one(FileTree)
        tree._load = load
        started = perf_counter()
        tree.root.children[0].expand()
        await pilot.pause()
        await app.workers.wait_for_complete()
        await pilot.pause()
        return timings | {"flat": perf_counter() - started}


def large_plan(count: int = 5_000) -> Plan:
    """Chains of three todos; every seventh waits for one of an earlier chain, too."""
    todos = []
    for number in range(count):
        needs = [f"todo-{number - 1}"] if number % 3 else []
        needs += [f"todo-{number - 50}"] if number >= 50 and number % 7 == 0 else []
        content = f"Do the thing number {number} in src/part_{number % 17}.py, with its tests and a word in the docs"
        todos.append(Todo(id=f"todo-{number}", content=content, dependencies=tuple(needs)))
    return Plan(path="large.plan.md", name="Large", body="# Large\n\ntext\n" * 50, todos=tuple(todos))


async def plan_speed(count: int = 5_000, steps: int = 20) -> dict[str, float]:
    """`open`: the first frame; `status` and `graph_status`: the median from a new status to its frame."""
    app, plan = plan_app(), large_plan(count)
    async with app.run_test(size=(120, 40)) as pilot:
        panel, started = app.query_one(PlanPanel), perf_counter()
        panel.show(plan, ())
        await pilot.pause()
        draw(app)
        timings = {"open": perf_counter() - started}
        for name in ("status", "graph_status"):
            times = []
            for number in range(steps):
                todos = tuple(
                    replace(todo, status="completed" if at <= number else "pending")
                    for at, todo in enumerate(plan.todos)
                )
                started = perf_counter()
                panel.show(replace(plan, todos=todos), todos)
                draw(app)
                times.append(perf_counter() - started)
                await pilot.pause()
            timings[name] = sorted(times)[steps // 2]
            panel.action_toggle_view()
            await pilot.pause()
        return timings
