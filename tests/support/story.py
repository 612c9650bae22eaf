"""A turn with everything in it, played by a directed model, and the engine's doors to that model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from core.engine.shared.models import ModelAccess
from core.errors import ProviderError
from core.providers.base import ReasoningDelta
from tests.support.agent_case import DirectedModel, Step, calls, says
from tests.support.default_model import access_to
from tests.support.trust import trust

MODEL = "directed/story"
TWICE = """\
class Net:
    def price(self):
        amount = 1
        return amount


class Gross:
    def price(self):
        amount = 1
        return amount
"""
PROSE = "All done.\n\n```python\nprint(1)\n```\nSee it."
TODOS = [{"id": "a", "content": "First", "dependencies": []}, {"id": "b", "content": "Then", "dependencies": ["a"]}]


def story() -> list[Step]:
    """Reasoning, a read, an edit, a new file, a call that fails, a command that nobody may allow, and an answer."""
    edit = {"file_path": "a.txt", "old_string": "two", "new_string": "TWO"}
    return [
        [ReasoningDelta("I think first."), *calls(("read_file", {"target_file": "a.txt"}), text="Let me look.")],
        calls(("search_replace", edit), ("write", {"file_path": "new.txt", "contents": "fresh\n"})),
        calls(("read_file", {"target_file": "missing.txt"}), ("run_terminal_cmd", {"command": "true"})),
        says(PROSE),
    ]


def planning() -> list[Step]:
    plan = {"name": "A plan", "overview": "Two steps", "plan": "# Do it", "todos": TODOS}
    return [calls(("create_plan", plan)), [ProviderError("the model API is gone", code="gone")]]


def access(*plays: Sequence[Step]) -> ModelAccess:
    """Each play is for one provider, in the order in which they are resolved; after the last one, it says "Done."."""
    waiting = list(plays)
    return access_to(lambda _id, _settings: (DirectedModel(waiting.pop(0) if waiting else []), "story"), MODEL)


def project_at(root: Path) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    (root / "a.txt").write_text("one\ntwo\nthree\n")
    trust(root)
    return root
