"""A place of the source that can be broken, and the test that has to notice."""

from __future__ import annotations

from typing import NamedTuple


class Place(NamedTuple):
    """`old` stands once in `file` and becomes `new`; `test`, as pytest names it, fails then. `had_none`: no test failed
    when the place was first broken."""

    name: str
    file: str
    old: str
    new: str
    test: str
    had_none: bool = False


def apply_mutation(place: Place, source: str) -> str:
    """Return the source with the place broken. Raises ValueError if what is to be broken does not stand in it once."""
    if (count := source.count(place.old)) != 1:
        raise ValueError(f"{place.file} has {count} times, and not once, what is to be broken: {place.old!r}")
    return source.replace(place.old, place.new)


def format_row(place: Place) -> str:
    """Return the row of `docs/dev/testing.md` for a place."""
    return f"| {place.name}{' *' * place.had_none} | `{place.file}` | `{place.test.removeprefix('tests/')}` |"
