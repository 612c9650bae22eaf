"""Random edits with `… existing code …` markers, each with the one result that it means: how many are wrong?

`python -m benchmarks.lazy COUNT SEED`. Files are classes in Python or JavaScript whose methods are made of few words,
so that lines, signatures and bodies are there more than once. A result is wrong unless it is the text that was meant.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from core.edits.errors import EditError
from core.edits.formats.lazy import apply_lazy

_VERBS: Final = ["load", "save", "open", "close", "read", "write", "parse", "build", "merge", "split", "find", "drop"]
_NOUNS: Final = ["user", "item", "row", "page", "node", "file", "cart", "order"]
_CLASSES: Final = ("Store", "Shop", "Depot", "Market")

Part = list[str]
Class = tuple[str, list[tuple[str, Part]]]


class Made(NamedTuple):
    """The methods of the class after the edit, and what the draft says of them."""

    methods: list[tuple[str, Part]]
    draft: Part


class Maker:
    """One language, one source of chance."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.python = chance.random() < 0.5
        self.marker = "# ... existing code ..." if self.python else "// ... existing code ..."
        self.close = [] if self.python else ["}"]

    def head(self, name: str) -> str:
        return f"class {name}:" if self.python else f"class {name} {{"

    def method(self, name: str, argument: str = "") -> Part:
        argument = argument or self.chance.choice(_NOUNS)
        head = f"    def {name}(self, {argument}):" if self.python else f"    {name}({argument}) {{"
        body = [row for _ in range(self.chance.randint(1, 5)) for row in self._statement()]
        return [head, *body, *self._closed(4)]

    def stub(self, method: Part) -> Part:
        return [method[0], f"        {self.marker}", *self._closed(4)]

    def classes(self) -> list[Class]:
        names = self.chance.sample(_CLASSES, self.chance.randint(1, 3))
        return [
            (name, [(verb, self.method(verb)) for verb in self.chance.sample(_VERBS, self.chance.randint(2, 4))])
            for name in names
        ]

    def render(self, classes: Sequence[Class]) -> str:
        apart = ["", ""] if self.python else [""]
        rows: Part = []
        for name, methods in classes:
            rows += [*(apart if rows else []), self.head(name), *_apart([rows for _, rows in methods]), *self.close]
        return "\n".join(rows) + "\n"

    def marked(self, parts: Sequence[Part], *, above: bool, below: bool) -> Part:
        marker = [f"    {self.marker}"]
        return _apart([*([marker] if above else []), *parts, *([marker] if below else [])])

    def _closed(self, depth: int) -> Part:
        return [] if self.python else [" " * depth + "}"]

    def _statement(self) -> Part:
        pick = self.chance.choice
        verb, noun, number = pick(_VERBS), pick(_NOUNS), self.chance.randint(1, 9)
        end = "" if self.python else ";"
        if self.chance.random() < 0.3:
            head = f"if {noun} > {number}:" if self.python else f"if ({noun} > {number}) {{"
            return [f"        {head}", f"            {verb}({noun}){end}", *self._closed(8)]
        return [f"        {pick([f'{noun} = {verb}({number})', f'{verb}({noun}, {number})', f'return {noun}'])}{end}"]


def _apart(parts: Sequence[Part]) -> Part:
    return [row for number, part in enumerate(parts) for row in ([""] if number else []) + part]


def _whole(maker: Maker, methods: list[tuple[str, Part]], index: int) -> Made:
    name, old = methods[index]
    return _replaced(maker, methods, index, [old[0], *maker.method(name)[1:]])


def _signed(maker: Maker, methods: list[tuple[str, Part]], index: int) -> Made:
    return _replaced(maker, methods, index, maker.method(methods[index][0], "first, second"))


def _replaced(maker: Maker, methods: list[tuple[str, Part]], index: int, new: Part) -> Made:
    after = [*methods[:index], (methods[index][0], new), *methods[index + 1 :]]
    return Made(after, maker.marked([new], above=index > 0, below=index < len(methods) - 1))


def _between(maker: Maker, methods: list[tuple[str, Part]], index: int) -> Made:
    new = maker.method("fresh")
    draft = maker.marked([new, maker.stub(methods[index][1])], above=index > 0, below=index < len(methods) - 1)
    return Made([*methods[:index], ("fresh", new), *methods[index:]], draft)


def _last(maker: Maker, methods: list[tuple[str, Part]], index: int) -> Made:
    new = maker.method("fresh")
    return Made([*methods, ("fresh", new)], maker.marked([new], above=True, below=False))


def _gone(maker: Maker, methods: list[tuple[str, Part]], index: int) -> Made:
    if not 0 < index < len(methods) - 1:
        return _last(maker, methods, index)
    around = [maker.stub(methods[index - 1][1]), maker.stub(methods[index + 1][1])]
    draft = maker.marked(around, above=index > 1, below=index < len(methods) - 2)
    return Made([*methods[:index], *methods[index + 1 :]], draft)


def _head(maker: Maker, methods: list[tuple[str, Part]], index: int) -> Made:
    name, old = methods[index]
    fresh = "        begin()" if maker.python else "        begin();"
    new = [old[0], fresh, *old[1:]]
    draft = [old[0], fresh, f"        {maker.marker}", *([] if maker.python else ["    }"])]
    after = [*methods[:index], (name, new), *methods[index + 1 :]]
    return Made(after, maker.marked([draft], above=index > 0, below=index < len(methods) - 1))


EDITS: Final[tuple[Callable[[Maker, list[tuple[str, Part]], int], Made], ...]] = (
    _whole, _signed, _between, _last, _gone, _head,
)  # fmt: skip


def one(seed: int) -> tuple[str, str]:
    """`right`, `refused` or `wrong`, and the kind of edit."""
    chance = random.Random(seed)
    maker = Maker(chance)
    classes = maker.classes()
    index = chance.randrange(len(classes))
    name, methods = classes[index]
    edit = chance.choice(EDITS)
    edit_case = edit(maker, methods, chance.randrange(len(methods)))
    expected = maker.render([*classes[:index], (name, edit_case.methods), *classes[index + 1 :]])
    apart = ["", ""] if maker.python else [""]
    draft = [maker.marker, *apart] if index else []
    draft += [maker.head(name), *edit_case.draft, *maker.close]
    draft += [*apart, maker.marker] if index < len(classes) - 1 else []
    try:
        result = apply_lazy(maker.render(classes), "\n".join(draft), "x.py" if maker.python else "x.js")
    except EditError:
        return "refused", edit.__name__
    return ("right" if result == expected else "wrong"), edit.__name__


def main(count: int, seed: int) -> int:
    """Prints the counts; returns how many were wrong."""
    counter = Counter(one(seed * 1_000_003 + number)[0] for number in range(count))
    print(
        f"{count} lazy edits, seed {seed}: " + ", ".join(f"{counter[outcome]} {outcome}" for outcome in sorted(counter))
    )
    return counter["wrong"]


if __name__ == "__main__":
    sys.exit(bool(main(int(sys.argv[1]), int(sys.argv[2]))))
