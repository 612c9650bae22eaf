"""A model in a process of its own: its answers are checked, and one that dies or lies is an error."""

from __future__ import annotations

import asyncio
import sys

import pytest

from core.engine.shared import remote_embeddings
from core.engine.shared.remote_embeddings import LocalModel
from core.errors import ProviderError

GOOD = "[[float(len(text))] * 384 for text in texts]"


@pytest.fixture
async def make(monkeypatch):
    models = []

    def build(answer):
        program = (
            "import json, sys\nfor line in sys.stdin:\n    texts = json.loads(line)['texts']\n"
            f"    print(json.dumps({answer}), flush=True)\n"
        )
        monkeypatch.setattr(remote_embeddings, "build_model_command", lambda: [sys.executable, "-c", program])
        models.append(LocalModel())
        return models[-1]

    yield build
    for model in models:
        await model.close()


async def test_vectors_come_in_the_order_of_their_texts_a_few_at_a_time(make):
    model = make(f"{{'vectors': {GOOD}}} if len(texts) <= 8 else {{'problem': 'too many'}}")
    texts = ["x" * length for length in range(20)]
    assert [vector[0] for vector in await model.embed("minilm", texts)] == list(range(20))
    assert await model.embed("minilm", []) == []


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("{'vectors': [[1.0] * 256 for text in texts]}", "no vectors of 384 numbers"),
        (f"{{'vectors': {GOOD}[1:]}}", "no vectors of 384 numbers"),
        ("{'problem': 'local/minilm needs onnxruntime'}", "needs onnxruntime"),
        ("{'vectors': 'many'}", "has crashed"),
        ("sys.exit(1)", "has crashed"),
    ],
)
async def test_an_answer_without_its_vectors_is_an_error(make, answer, said):
    with pytest.raises(ProviderError, match=said):
        await make(answer).embed("minilm", ["one", "two"])


async def test_one_that_has_died_is_started_again(make):
    model = make(f"{{'vectors': {GOOD}}}")
    await model.embed("minilm", ["one"])
    first = model._process
    first.kill()
    await first.wait()
    assert len(await model.embed("minilm", ["one"])) == 1
    assert model._process is not first


async def test_an_answer_that_nobody_waited_for_is_not_that_of_the_next(make):
    model = make(f"sys.stdin.readline() if texts == ['slow'] else {{'vectors': {GOOD}}}")
    await model.embed("minilm", ["one"])
    first = model._process
    waiting = asyncio.create_task(model.embed("minilm", ["slow"]))
    await asyncio.sleep(0)  # it has written its question, and reads
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert first.returncode is not None
    assert [vector[0] for vector in await model.embed("minilm", ["four"])] == [4.0]
