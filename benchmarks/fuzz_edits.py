"""Fuzzing of the edit engine: the corpus, mutated, through every format. Nothing may crash and nothing may hang.

python -m benchmarks.fuzz_edits [SEED [SECONDS]]
"""

from __future__ import annotations

import json
import random
import sys
import time
from importlib import import_module
from typing import Any

from core.transports.edit_service import FORMATS, answer

LONGEST = 1.0  # seconds that one edit may take before it is reported
_LETTERS = "-+=<>@* \n\t\r|#{}\"'`\\…é:0.,"


def mutated(rng: random.Random, text: str, others: list[str]) -> str:
    """`text` after one to six small accidents: signs put in or lost, parts doubled, parts of other edits mixed in."""
    letters = list(text)
    for _ in range(rng.randint(1, 6)):
        _mutate(rng, letters, others)
    return "".join(letters)


def _mutate(rng: random.Random, letters: list[str], others: list[str]) -> None:
    index = rng.randrange(len(letters) + 1)
    match rng.randrange(5):
        case 0:
            letters.insert(index, rng.choice(_LETTERS))
        case 1:
            del letters[index : index + 1]
        case 2:
            del letters[index : index + rng.randint(1, 30)]
        case 3:
            letters[index:index] = letters[index : index + rng.randint(1, 60)] * rng.randint(1, 3)
        case _:
            other = rng.choice(others)
            start = rng.randrange(len(other) + 1)
            letters[index:index] = other[start : start + rng.randint(1, 80)]


def fuzz(seed: int, seconds: float) -> int:
    """Prints every fault with the request that made it. Returns how many there were."""
    rng = random.Random(seed)
    parts = ("written", "others", "families")
    cases = [case for part in parts for case in import_module(f"tests.edits_corpus.{part}").cases()]
    others = [case.edit if isinstance(case.edit, str) else json.dumps(case.edit) for case in cases]
    end, count, faults = time.monotonic() + seconds, 0, 0
    while time.monotonic() < end:
        request: dict[str, Any] = rng.choice(cases).request()
        edit = request["edit_text"]
        request["edit_text"] = mutated(rng, edit if isinstance(edit, str) else json.dumps(edit), others)
        if rng.random() < 0.3:
            request["format"] = rng.choice(sorted(FORMATS))
        if request["original"] and rng.random() < 0.3:
            request["original"] = mutated(rng, request["original"], others)
        line = json.dumps(request)
        begun = time.monotonic()
        answered = answer(line)
        took = time.monotonic() - begun
        count += 1
        if answered.get("error") == "internal" or took > LONGEST:
            faults += 1
            print(f"{took:.2f} s  {answered.get('message', '')[:200]}\n  {line[:2000]}", flush=True)
    print(f"seed {seed}: {count:,} edits in {seconds:.0f} s, {faults} faults")
    return faults


if __name__ == "__main__":
    args = sys.argv[1:]
    sys.exit(min(fuzz(int(args[0]) if args else 1, float(args[1]) if len(args) > 1 else 600), 1))
