"""What becomes of an edit whose one right answer is known, counted by format, language and trait."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from benchmarks.edit_corpus.changes import Change, changes
from benchmarks.edit_corpus.shapes import Made, make
from core.edits.errors import EditError
from core.edits.formats.draft import apply_drafts
from core.edits.formats.lazy import apply_lazy

RIGHT, REFUSED, WRONG = "right", "refused", "wrong"
_EACH: Final = 3  # commits that are looked at for each edit that is wanted


class Tally:
    """Outcomes, why edits were refused, and the wrong ones."""

    def __init__(self) -> None:
        self.all: Counter[str] = Counter()
        self.by: dict[str, Counter[str]] = defaultdict(Counter)
        self.causes: Counter[str] = Counter()
        self.wrong: list[Made] = []

    def add(self, made: Made) -> None:
        outcome, cause = judged(made)
        self.all[outcome] += 1
        for name in (made.language, *(f"~{trait}" for trait in made.traits)):
            self.by[name][outcome] += 1
        if outcome == REFUSED:
            self.causes[cause] += 1
        if outcome == WRONG:
            self.wrong.append(made)

    def rows(self, *, least: int = 20) -> Iterator[str]:
        yield told("all", self.all)
        for name, counts in sorted(self.by.items()):
            if counts.total() >= least:
                yield told(name, counts)
        for cause, count in self.causes.most_common(12):
            yield f"  refused {count:5}: {cause}"


def judged(made: Made) -> tuple[str, str]:
    """The outcome of an edit, and why it was refused. An edit that changes nothing is refused by the tools."""
    try:
        if made.format == "lazy":
            text = apply_lazy(made.original, made.edit, made.path)
        else:
            text = apply_drafts(made.original, made.edit, made.path)
    except EditError as problem:
        return REFUSED, problem.message.partition("'")[0][:100]
    if text == made.original:
        return REFUSED, "nothing would change"
    return (RIGHT if text == made.expected else WRONG), ""


def told(name: str, counts: Counter[str]) -> str:
    total = counts.total()
    share = counts[RIGHT] / total if total else 0.0
    return f"  {name:18} {total:6}  right {share:6.1%}  refused {counts[REFUSED]:5}  wrong {counts[WRONG]:3}"


def edits(made_of: Sequence[Change], format_: str, count: int, seed: int, *, careful: bool) -> Iterator[Made]:
    """`count` edits of changes that are taken in turn; fewer when most of the changes leave nothing to say."""
    found = 0
    for number in range(_EACH * count):
        if found == count or not made_of:
            return
        chance = random.Random(f"{seed}/{number}/{format_}")
        made = make(made_of[number % len(made_of)], format_, chance, careful=careful)
        if made is not None:
            found += 1
            yield made


def gathered(repositories: Sequence[Path], seed: int, *, most: int) -> list[Change]:
    """Up to `most` changes of each repository, shuffled."""
    chance = random.Random(seed)
    found: list[Change] = []
    for repository in repositories:
        each = changes(repository, chance, commits=_EACH * most)
        found += [change for change, _ in zip(each, range(most), strict=False)]
    chance.shuffle(found)
    return found
