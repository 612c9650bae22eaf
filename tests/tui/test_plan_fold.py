from __future__ import annotations

from msgspec.structs import replace

from core.protocol import documents as d
from core.protocol import events as e
from tests.support import recorded

PLAN = next(each.plan for each in recorded.planning() if isinstance(each, e.PlanCreated | e.PlanUpdated))
CARD = d.PlanDocument(
    id="card", sequence=1, metadata=d.PlanMetadata(title="Tax", overview="", todos=PLAN.todos, path=PLAN.path)
)


async def test_n16a_the_card_of_a_plan_shows_its_todos_as_they_are_now(stage):
    async with stage([*recorded.opening(), e.DocumentFinished(document=CARD)]) as on:
        assert "○ Run the tests" in "\n".join(on.lines())
        done = tuple(replace(todo, status="completed") for todo in PLAN.todos)
        await on.emit(e.TodoChanged(todos=done, plan=PLAN.path))
        await on.until(lambda: "● Run the tests" in "\n".join(on.lines()))
        assert "○" not in "\n".join(on.lines())
        await on.emit(e.PlanUpdated(plan=PLAN))
        await on.until(lambda: "○ Run the tests" in "\n".join(on.lines()))


async def test_n16a_the_todos_of_another_plan_leave_the_card_as_it_is(stage):
    async with stage([*recorded.opening(), e.DocumentFinished(document=CARD)]) as on:
        done = tuple(replace(todo, status="completed") for todo in PLAN.todos)
        await on.emit(e.TodoChanged(todos=done, plan="other.plan.md"), e.TodoChanged(todos=done))
        assert "○ Run the tests" in "\n".join(on.lines())
