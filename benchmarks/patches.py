"""Patches from the commits of clones, with the accidents that models have: how many are right, refused, wrong?

python -m benchmarks.patches PATH… [--count N] [--seed S] [--show]

Each PATH is a git repository, or a directory of which every child is one. The right answer is the file after the
commit; a patch whose target is gone has none and has to be refused. Returns 1 when a patch was wrong.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.edit_corpus.__main__ import _repositories
from benchmarks.edit_corpus.changes import Change, Span
from benchmarks.edit_corpus.outcomes import gathered
from core.edits.errors import EditError
from core.edits.formats.patch import apply_file_patch
from core.edits.formats.patch_parser import parse_patch

RIGHT, REFUSED, WRONG = "right", "refused", "wrong"
_WORD = re.compile(r"[A-Za-z]{5,}")


class Hunk(NamedTuple):
    """Rows with their signs, and where they stand before and after (1-indexed)."""

    rows: list[str]
    old: int
    new: int


class Made(NamedTuple):
    """A patch for files by path, and what each is meant to become; None: the patch has to be refused."""

    form: str
    accidents: tuple[str, ...]
    files: dict[str, str]
    patch: str
    expected: dict[str, str] | None


class Draft:
    """A change of one file on its way to a patch."""

    def __init__(self, change: Change, chance: random.Random) -> None:
        self.chance = chance
        self.path = change.path
        self.old, self.new = (
            text.replace("\r\n", "\n").removesuffix("\n").split("\n") for text in (change.before, change.after)
        )
        self.spans = list(change.spans)
        self.accidents: list[str] = []
        self.context = chance.choice((3, 3, 3, 2, 1))
        self.hunks: list[Hunk] = []
        self.anchored = False
        self.stale = False

    def cut(self) -> None:
        """Cut the change into hunks with context, those that touch made one."""
        grown: list[list[Span]] = []
        for span in self.spans:
            if grown and span.first - grown[-1][-1].last <= 2 * self.context:
                grown[-1].append(span)
            else:
                grown.append([span])
        self.hunks = [self._hunk(spans) for spans in grown]

    def _hunk(self, spans: Sequence[Span]) -> Hunk:
        first, last = max(0, spans[0].first - self.context), min(len(self.old), spans[-1].last + self.context)
        rows: list[str] = []
        position = first
        for span in spans:
            rows += [f" {line}" for line in self.old[position : span.first]]
            rows += [f"-{line}" for line in self.old[span.first : span.last]]
            rows += [f"+{line}" for line in self.new[span.start : span.stop]]
            position = span.last
        rows += [f" {line}" for line in self.old[position:last]]
        return Hunk(rows, first + 1, spans[0].start - (spans[0].first - first) + 1)

    def v4a(self) -> str:
        rows = [f"*** Update File: {self.path}"]
        for hunk in self.hunks:
            anchor = self._anchor(hunk) if self.anchored else ""
            rows += [f"@@ {anchor}" if anchor else "@@", *hunk.rows]
        return "\n".join(rows) + "\n"

    def _anchor(self, hunk: Hunk) -> str:
        """The nearest line above that is less indented than the first one of the hunk."""
        first = next((line for line in self.old[hunk.old - 1 :] if line.strip()), "")
        depth = len(first) - len(first.lstrip())
        for line in reversed(self.old[: hunk.old - 1]):
            if line.count("`") % 2:
                return ""  # a literal over several lines, which may hold other code
            if re.match(r"\s*\w", line) and len(line) - len(line.lstrip()) < depth:
                return line
        return ""

    def unified(self, drift: int = 0) -> str:
        rows = [f"--- a/{self.path}", f"+++ b/{self.path}"]
        for hunk in self.hunks:
            old, new = (sum(row[:1] != sign for row in hunk.rows) for sign in "+-")
            starts = (hunk.old - (not old), hunk.new - (not new))
            rows += [f"@@ -{starts[0] + drift},{old} +{starts[1] + drift},{new} @@", *hunk.rows]
        return "\n".join(rows) + "\n"


def _lose_spaces(draft: Draft) -> None:
    some = draft.chance.random() < 0.5
    draft.hunks = [
        hunk._replace(
            rows=[
                row[1:]
                if row[0] == " " and (not some or draft.chance.random() < 0.5) and row[1:2] not in "-+@"
                else row
                for row in hunk.rows
            ]
        )
        for hunk in draft.hunks
    ]


def _strip_ends(draft: Draft) -> None:
    draft.hunks = [
        hunk._replace(rows=[row.rstrip() if row[0] == " " else row for row in hunk.rows]) for hunk in draft.hunks
    ]


def _shuffle(draft: Draft) -> None:
    draft.chance.shuffle(draft.hunks)


def _misspell(draft: Draft) -> None:
    places = [
        (number, index)
        for number, hunk in enumerate(draft.hunks)
        for index, row in enumerate(hunk.rows)
        if row[0] == " " and _WORD.search(row)
    ]
    if not places:
        return
    number, index = draft.chance.choice(places)
    row = draft.hunks[number].rows[index]
    word = draft.chance.choice(list(_WORD.finditer(row)))
    position = draft.chance.randrange(word.start() + 1, word.end() - 1)
    draft.hunks[number].rows[index] = row[:position] + row[position + 1 :]


def _repeat(draft: Draft) -> None:
    draft.hunks.append(draft.chance.choice(draft.hunks))


def _make_stale(draft: Draft) -> None:
    """A line that goes is another one in the file by now."""
    going = [index for span in draft.spans for index in range(span.first, span.last) if draft.old[index].strip()]
    if not going:
        return
    index = draft.chance.choice(going)
    line = draft.old[index]
    kind = draft.chance.randrange(3)
    numbered = re.sub(r"\d+", lambda match: str(int(match[0]) + 1), line)
    changed = (numbered if numbered != line else f"{line}2", f"{line} + more", line.replace(line.strip(), "gone()"))[
        kind
    ]
    if changed != line and changed not in draft.old:
        draft.old[index] = changed
        draft.stale = True


def _has_twin(draft: Draft) -> bool:
    """Whether the file has the old lines of every hunk, so that nothing tells that one of them is gone."""
    text = "\n".join(line.strip() for line in draft.old)
    hunks = (
        "\n".join(row[row[:1] in (" ", "-") :].strip() for row in hunk.rows if row[:1] != "+") for hunk in draft.hunks
    )
    return draft.stale and all(hunk in text for hunk in hunks)


ACCIDENTS: Final[dict[str, Callable[[Draft], None]]] = {
    "lost-space": _lose_spaces,
    "stripped": _strip_ends,
    "shuffled": _shuffle,
    "misspelt": _misspell,
    "repeated": _repeat,
}
PROSE: Final = ("Here is the change:\n\n- it does this\n- and that\n\n", "I update `the file`.\n", "")


def make(changes: Sequence[Change], chance: random.Random) -> Made | None:
    """A patch of one or two changes; None where there is nothing to say."""
    drafts = [Draft(change, chance) for change in changes]
    if len({draft.path for draft in drafts}) < len(drafts) or any(
        "\r" in change.before + change.after for change in changes
    ):
        return None
    if any(change.before.endswith("\n") != change.after.endswith("\n") or not change.before for change in changes):
        return None
    accidents: list[str] = []
    zero = chance.random() < 0.1
    stale = chance.random() < 0.15
    form = "unified" if zero else chance.choice(("v4a", "unified"))
    name = chance.choice([*ACCIDENTS, "", "", ""]) if not zero else ""
    for draft in drafts:
        draft.context = 0 if zero else draft.context
        draft.anchored = chance.random() < 0.3
        draft.cut()
        if name:
            ACCIDENTS[name](draft)
        if stale:
            _make_stale(draft)
    accidents += [name_part for name_part in (name, "zero" * zero) if name_part]
    texts = [_write(draft, form, chance, accidents) for draft in drafts]
    patch = _frame(texts, form, chance, accidents)
    crlf = chance.random() < 0.1
    ends = ["\n" * change.before.endswith("\n") for change in changes]
    files = {draft.path: "\n".join(draft.old) + end for draft, end in zip(drafts, ends, strict=True)}
    expected = {draft.path: "\n".join(draft.new) + end for draft, end in zip(drafts, ends, strict=True)}
    if crlf:
        files, expected = (
            {path: text.replace("\n", "\r\n") for path, text in version.items()} for version in (files, expected)
        )
    is_stale = any(draft.stale for draft in drafts)
    if is_stale and not zero and any(map(_has_twin, drafts)):
        return None
    accidents += ["stale"] * is_stale + ["crlf"] * crlf
    return Made(form, tuple(accidents), files, patch, None if is_stale else expected)


def _write(draft: Draft, form: str, chance: random.Random, accidents: list[str]) -> str:
    if form == "v4a":
        accidents += ["anchored"] * draft.anchored
        return draft.v4a()
    drift = chance.choice((0, 0, 0, 3, -2, 40)) if draft.context else 0
    accidents += ["drifted"] * (drift != 0)
    return draft.unified(drift)


def _frame(texts: Sequence[str], form: str, chance: random.Random, accidents: list[str]) -> str:
    kind = chance.choice(("plain", "plain", "prose", "fence", "heredoc", "no-end", "mixed"))
    accidents.append(kind)
    bodies = [f"*** Begin Patch\n{text}*** End Patch\n" if form == "v4a" else text for text in texts]
    match kind:
        case "prose":
            return chance.choice(PROSE) + "\nThen the other one.\n\n".join(bodies) + "\nThat is all.\n"
        case "fence":
            return "Look:\n\n" + "\nand\n\n".join(f"```diff\n{text}```\n" for text in bodies)
        case "heredoc":
            return "\n".join(f"apply_patch <<'EOF'\n{text}EOF" for text in bodies)
        case "no-end" if form == "v4a":
            return f"*** Begin Patch\n{''.join(texts)}" + chance.choice(("", "\n"))
        case "mixed" if form == "v4a":
            return f"*** Begin Patch\n{''.join(texts)}*** End Patch"
        case _:
            return "".join(bodies)


def judged(case: Made) -> tuple[str, str]:
    """The outcome of a patch, and why it was refused."""
    files = dict(case.files)
    try:
        for file_patch in parse_patch(case.patch):
            files[file_patch.path] = apply_file_patch(files.get(file_patch.path), file_patch).text or ""
    except EditError as problem:
        return REFUSED, re.sub(r"'.*|\d+", "", problem.message.split("\n")[0])[:80]
    if files == case.files:
        return REFUSED, "nothing would change"
    return (RIGHT if files == case.expected else WRONG), ""


def patches(changes: Sequence[Change], count: int, seed: int) -> Iterator[Made]:
    """`count` patches of changes that are taken in turn."""
    case_count = 0
    for number in range(3 * count):
        chance = random.Random(f"{seed}/{number}/patch")
        indexes = [changes[(number + step) % len(changes)] for step in range(chance.choice((1, 1, 2)))]
        case = make(indexes, chance)
        if case is not None:
            case_count += 1
            yield case
        if case_count == count:
            return


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.patches", description=__doc__)
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", action="store_true", help="print the wrong patches")
    options = parser.parse_args(arguments)
    repositories = [repository for path in options.paths for repository in _repositories(path)]
    changes = gathered(repositories, options.seed, most=max(20, options.count // max(1, len(repositories))))
    outcomes: dict[str, Counter[str]] = defaultdict(Counter)
    causes: Counter[tuple[str, str]] = Counter()
    for case in patches(changes, options.count, options.seed):
        outcome, cause = judged(case)
        for name in ("all", case.form, *(f"~{accident}" for accident in dict.fromkeys(case.accidents))):
            outcomes[name][outcome] += 1
        if outcome == REFUSED and case.expected is not None:
            causes[case.accidents[0] if case.accidents else "", cause] += 1
        if outcome == WRONG and options.show:
            print(f"WRONG {case.accidents} {list(case.files)}\n{case.patch}\n")
    for name, counts in sorted(outcomes.items()):
        parts = (f"{outcome_name} {counts[outcome_name]:6}" for outcome_name in (RIGHT, REFUSED, WRONG))
        print(f"  {name:12} {counts.total():6}", *parts)
    for (accident, cause), number in causes.most_common(15):
        print(f"  refused {number:5}: {accident}: {cause}")
    return int(outcomes["all"][WRONG] > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
