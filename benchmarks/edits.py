"""The edit engine measured: false matches among planted near-duplicates, and time as ratios to `str.replace`.

python -m benchmarks.edits [matches [COUNT [SEED]] | speed]
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

from core.edits.errors import EditError
from core.edits.formats.search_replace import SearchReplaceBlock, apply_blocks
from core.edits.formats.str_replace import replace_string

_NOUNS = (
    "order",
    "price",
    "cart",
    "user",
    "token",
    "route",
    "image",
    "score",
    "cache",
    "queue",
    "label",
    "event",
    "field",
    "batch",
    "limit",
    "owner",
)
_VERBS = (
    "load",
    "save",
    "check",
    "merge",
    "build",
    "parse",
    "reset",
    "count",
    "apply",
    "fetch",
    "close",
    "start",
    "split",
    "trim",
)


def _function(rng: random.Random) -> list[str]:
    noun, verb, other = rng.choice(_NOUNS), rng.choice(_VERBS), rng.choice(_NOUNS)
    rows = [f"def {verb}_{noun}(self, {other}, limit={rng.randint(1, 99)}):"]
    for _ in range(rng.randint(2, 5)):
        a, b, c = rng.choice(_NOUNS), rng.choice(_VERBS), rng.choice(_NOUNS)
        rows.append(
            rng.choice(
                [
                    f"    {a} = {b}_{c}({other}, {rng.randint(1, 500)})",
                    f"    if {a} > {rng.randint(1, 9)}:",
                    f"    self.{a}.{b}({c})",
                    f'    log.info("{b} {a}", {c}={c})',
                ]
            )
        )
        if rows[-1].endswith(":"):
            rows.append(f"        return {rng.choice(_NOUNS)} + {rng.randint(1, 9)}")
    rows.append(f"    return {rng.choice(_NOUNS)}")
    return rows


def _near(rng: random.Random, block: list[str]) -> list[str]:
    """The block with one small change that means something else."""
    rows = list(block)
    index = rng.randrange(len(rows))
    row = rows[index]
    changes: list[Callable[[str], str]] = [
        lambda text: text.replace(">", "<") if ">" in text else text + "  # kept",
        lambda text: "".join(str((int(c) + 1) % 10) if c.isdigit() else c for c in text),
        lambda text: text.replace("(", "(not ", 1) if "(" in text else f"{text} or None",
        lambda text: text.replace(rng.choice(_NOUNS), rng.choice(_NOUNS)),
        lambda text: text.replace("self.", "other."),
        lambda text: text.replace("_", "s_", 1),
    ]
    rows[index] = rng.choice(changes)(row)
    if rows == block:
        rows.insert(index, "    pass")
    return rows


def _miswritten(rng: random.Random, rows: list[str]) -> list[str]:
    """As a model may write it: white space, blank lines, one letter of one word."""
    index = rng.randrange(len(rows))
    cut = rng.choice([i for i, letter in enumerate(rows[index]) if letter.isalpha()])
    ways = [
        rows,
        [f"{row}  " for row in rows],
        [f"    {row}" for row in rows],
        [row.replace("    ", "\t") for row in rows],
        [rows[0], *([""] if len(rows) > 1 else []), *rows[1:]],
        [row.replace(" = ", "  =  ").replace(", ", ",") for row in rows],
        [*rows[:index], rows[index][:cut] + rows[index][cut + 1 :], *rows[index + 1 :]],
    ]
    return rng.choice(ways)


def _one(rng: random.Random) -> str:
    functions = [_function(rng) for _ in range(rng.randint(4, 14))]
    target = rng.choice(functions)
    first = rng.randrange(len(target))
    block = target[first : first + rng.randint(1, 5)]
    near = [*target[:first], *_near(rng, block), *target[first + len(block) :]]
    functions.insert(rng.randrange(len(functions) + 1), near)
    present = rng.random() < 0.5
    if not present:
        functions = [function for function in functions if function is not target]
    text = "\n\n".join("\n".join(rows) for rows in functions) + "\n"
    search = "\n".join(_miswritten(rng, block)) + "\n"
    body = "\n".join(block) + "\n"
    places = [i for i in range(len(text)) if text.startswith(body, i) and (i == 0 or text[i - 1] == "\n")]
    try:
        new_text = apply_blocks(text, [SearchReplaceBlock(search, "REPLACED\n")]).text
    except EditError:
        return "refused, there" if places else "refused, not there"
    line = next(row for row in new_text.split("\n") if "REPLACED" in row)
    right = [text[:i] + line + "\n" + text[i + len(body) :] for i in places]
    return "right" if len(places) == 1 and new_text in right else "WRONG"


def matches(count: int, seed: int) -> int:
    rng = random.Random(seed)
    counter: Counter[str] = Counter()
    for number in range(count):
        outcome = _one(rng)
        counter[outcome] += 1
        if outcome == "WRONG":
            print(f"case {number}: wrong", file=sys.stderr)
    print(f"{count} edits, seed {seed}: " + ", ".join(f"{counter[name]} {name}" for name in sorted(counter)))
    return counter["WRONG"]


def _timed(work: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        with suppress(EditError):
            work()
        best = min(best, time.perf_counter() - start)
    return best


def speed() -> None:
    lines = [f"    value_{i} = compute_{i % 97}(item_{i}, {i})" for i in range(10_000)]
    text = "".join(f"{line}\n" for line in lines)
    large = "".join(f"    value_{i} = compute_{i % 97}(item_{i}, {i})\n" for i in range(48_000))
    chosen = [lines[i : i + 5] for i in range(500, 10_000, 950)][:10]

    def blocks(change: Callable[[str], str]) -> list[SearchReplaceBlock]:
        return [SearchReplaceBlock("".join(f"{change(row)}\n" for row in rows), "new\n") for rows in chosen]

    plain = _timed(lambda: text.replace(lines[5000], "new"))
    cases: dict[str, tuple[str, list[SearchReplaceBlock]]] = {
        "10 blocks, exact": (text, blocks(lambda row: row)),
        "10 blocks, indentation": (text, blocks(str.strip)),
        "10 blocks, spacing": (text, blocks(lambda row: row.replace(" = ", "  =  "))),
        "10 blocks, misspelt": (text, blocks(lambda row: row.replace("compute_", "comute_", row.count("7")))),
        "10 blocks, one not there": (
            text,
            [*blocks(lambda row: row)[:9], SearchReplaceBlock("not there at all\n", "x\n")],
        ),
        f"1 block in {len(large) / 1e6:.1f} MB, misspelt": (
            large,
            blocks(lambda row: row.replace("value", "vlue"))[:1],
        ),
        "10,000 equal lines, one": ("same\n" * 10_000, [SearchReplaceBlock("same\n", "x\n")]),
        "10,000 equal lines, 5,000": ("same\n" * 10_000, [SearchReplaceBlock("same \n" * 5_000, "x\n")]),
        "10,000 equal lines, 5,000 and another": (
            "same\n" * 10_000,
            [SearchReplaceBlock("same\n" * 5_000 + "o\n", "x\n")],
        ),
    }
    print(f"str.replace in 10,000 lines: {plain * 1e3:.3f} ms")
    for name, (original, batch) in cases.items():
        took = _timed(lambda original=original, batch=batch: apply_blocks(original, batch))
        print(f"{name:45} {took * 1e3:9.1f} ms  {took / plain:9.0f} x str.replace")
    took = _timed(lambda: replace_string(text, lines[77], "x"))
    print(f"{'str_replace, exact':45} {took * 1e3:9.1f} ms  {took / plain:9.0f} x str.replace")


def main(arguments: list[str]) -> int:
    command, *rest = arguments or ["speed"]
    if command == "matches":
        return 1 if matches(int(rest[0]) if rest else 2000, int(rest[1]) if rest[1:] else 1) else 0
    speed()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
