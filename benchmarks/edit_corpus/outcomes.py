"""What becomes of an edit whose one right answer is known, counted by format, language and trait."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from benchmarks.edit_corpus.changes import Change, changes
from benchmarks.edit_corpus.shapes import Made, make
from benchmarks.edit_corpus.stale import AGED, age
from core.edits.errors import EditError, UndecidedEdit
from core.edits.formats.draft import apply_drafts
from core.edits.formats.lazy import apply_lazy

RIGHT, REFUSED, DEFERRED, LITERAL = "right", "refused", "deferred", "literal"
WRONG, LOST, STALE = "wrong", "lost", "stale"
BAD: Final = (WRONG, LOST, STALE)
_EACH: Final = 3  # commits that are looked at for each edit that is wanted


class Tally:
    """Outcomes, why edits were refused, and the wrong ones."""

    def __init__(self) -> None:
        self.all: Counter[str] = Counter()
        self.by: dict[str, Counter[str]] = defaultdict(Counter)
        self.causes: Counter[str] = Counter()
        self.wrong: list[tuple[str, Made]] = []

    def add(self, edit: Made) -> None:
        outcome, cause = judged(edit)
        self.all[outcome] += 1
        for name in (edit.language, *(f"~{trait}" for trait in edit.traits)):
            self.by[name][outcome] += 1
        if outcome in (REFUSED, DEFERRED):
            self.causes[cause] += 1
        if outcome in BAD:
            self.wrong.append((outcome, edit))

    def rows(self, *, least: int = 20) -> Iterator[str]:
        yield told("all", self.all)
        for name, counts in sorted(self.by.items()):
            if counts.total() >= least:
                yield told(name, counts)
        for cause, count in self.causes.most_common(12):
            yield f"  refused {count:5}: {cause}"


def judged(edit: Made) -> tuple[str, str]:
    """The outcome of an edit, and why it was refused. An edit that changes nothing is refused by the tools; what rules
    can't decide is deferred to the edit agent. It is literal if its context does not show all that goes and all
    that it leaves out was kept, as the rule of markers says, though the commit replaced some of it; lost if a line is
    gone that the file it means still has; stale if anything was made of an edit whose target is not in the file."""
    try:
        text = applied(edit)
    except UndecidedEdit as problem:
        return DEFERRED, problem.message.partition("'")[0][:100]
    except EditError as problem:
        return REFUSED, problem.message.partition("'")[0][:100]
    if text == edit.original:
        return REFUSED, "nothing would change"
    return _compared(edit, text), ""


def _compared(edit: Made, text: str) -> str:
    """What the text that an edit makes is, in comparison with the file that it means."""
    if text == edit.expected:
        return RIGHT
    if edit.original == edit.expected:
        return STALE
    if missing(edit, text):
        return LOST
    spaced = text.split() == edit.expected.split()  # blank lines beside a marker are its surroundings
    return LITERAL if (edit.is_cut and spaced) or (edit.shape != "careful" and keeps_more(edit, text)) else WRONG


def applied(edit: Made) -> str:
    """The text that an edit makes. Raises `EditError`."""
    apply = apply_lazy if edit.format == "lazy" else apply_drafts
    return apply(edit.original, edit.edit, edit.path)


def keeps_more(edit: Made, text: str) -> bool:
    """Whether a text is the one that is meant with more lines of the file, all of which stay as they were."""
    rows = iter(text.split("\n"))
    more = _counted(text) - _counted(edit.expected)
    filled = (row for row in edit.expected.split("\n") if row.strip())
    return all(row in rows for row in filled) and more <= _counted(edit.original)


def missing(edit: Made, text: str) -> list[str]:
    """The lines that are in the file before and after the commit, and less often in a text."""
    before, after, actual = (_counted(text_part) for text_part in (edit.original, edit.expected, text))
    return [row for row, count in (before & after).items() if actual[row] < count]


def _counted(text: str) -> Counter[str]:
    return Counter(row.strip() for row in text.splitlines() if row.strip())


def told(name: str, counts: Counter[str]) -> str:
    total = counts.total()
    share = counts[RIGHT] / total if total else 0.0
    rest = "  ".join(f"{outcome} {counts[outcome]:4}" for outcome in (DEFERRED, REFUSED, LITERAL, *BAD))
    return f"  {name:18} {total:6}  right {share:6.1%}  {rest}"


def edits(made_of: Sequence[Change], format_: str, count: int, seed: int, *, shape: str) -> Iterator[Made]:
    """`count` edits of changes that are taken in turn; fewer when most of the changes leave nothing to say."""
    count_so_far = 0
    for number in range(_EACH * count):
        if count_so_far == count or not made_of:
            return
        chance = random.Random(f"{seed}/{number}/{format_}")
        change = made_of[number % len(made_of)]
        if shape == STALE:
            edit = make(change, format_, chance, shape=chance.choice(AGED))
            edit = edit and age(edit, chance)
        else:
            edit = make(change, format_, chance, shape=shape)
        if edit is not None:
            count_so_far += 1
            yield edit


def gathered(repositories: Sequence[Path], seed: int, *, most: int) -> list[Change]:
    """Up to `most` changes of each repository, shuffled."""
    chance = random.Random(seed)
    pool: list[Change] = []
    for repository in repositories:
        source = changes(repository, chance, commits=_EACH * most)
        pool += [change for change, _ in zip(source, range(most), strict=False)]
    chance.shuffle(pool)
    return pool
