"""Indentation that was shifted as a whole: deduced from matching lines, applied to the lines that replace them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import gcd

Shift = Callable[[str], str]
_WIDTHS = (4, 2, 8, 3)


def extract_indent(line: str) -> str:
    """Return the spaces and tabs that a line begins with."""
    return line[: len(line) - len(line.lstrip(" \t"))]


def measure_depth(line: str) -> int:
    """Return the columns of indentation, with tabs of four."""
    text = line.expandtabs(4)
    return len(text) - len(text.lstrip())


def deduce_shift(pairs: Sequence[tuple[str, str]], sample: Iterable[str]) -> Shift | None:
    """Deduce the one rule that turns the indentation of every draft line into that of the file; None = there is none.

    `pairs` are (draft line, file line), none of them blank; `sample` are further draft lines, which show the width of a
    level. The rule takes a whole line and returns it re-indented; blank lines stay as they are.
    """
    indents = [(extract_indent(draft_line), extract_indent(present)) for draft_line, present in pairs]
    if not indents:
        return None
    rule = _deduce_added(indents) or _deduce_cut(indents) or _deduce_restyled(indents, sample)
    return None if rule is None else _lift_to_lines(rule)


def deduce_first_shift(indents: Sequence[tuple[str, str]]) -> Shift | None:
    """Deduce the rule from the first (draft indentation, file indentation) pair; None = neither is the end of the
    other."""
    rule = _deduce_added(indents[:1]) or _deduce_cut(indents[:1])
    return None if rule is None else _lift_to_lines(rule)


def _lift_to_lines(rule: Shift) -> Shift:
    def shift(line: str) -> str:
        if not line.strip():
            return line
        indent = extract_indent(line)
        return rule(indent) + line[len(indent) :]

    return shift


def _deduce_added(indents: Sequence[tuple[str, str]]) -> Shift | None:
    """Deduce a prefix that is added to every indentation; it may be empty."""
    draft_indent, present = indents[0]
    prefix = present[: max(0, len(present) - len(draft_indent))]
    same = all(prefix + draft_indent == present for draft_indent, present in indents)
    return (lambda indent: prefix + indent) if same else None


def _deduce_cut(indents: Sequence[tuple[str, str]]) -> Shift | None:
    draft_indent, present = indents[0]
    prefix = draft_indent[: len(draft_indent) - len(present)]
    if not prefix or not all(prefix + present == draft_indent for draft_indent, present in indents):
        return None
    return lambda indent: indent[len(prefix) :] if indent.startswith(prefix) else ""


def _deduce_restyled(indents: Sequence[tuple[str, str]], sample: Iterable[str]) -> Shift | None:
    """Deduce tabs for spaces, spaces for tabs, or another width; spaces of continuation lines are carried over."""
    sample_indents = [extract_indent(line) for line in sample if line.strip()]
    given_units = _find_units([draft_indent for draft_indent, _ in indents] + sample_indents)
    present_units = _find_units([present for _, present in indents])
    rules = [
        (abs(delta), given_unit, present_unit, delta)
        for given_unit in given_units
        for present_unit in present_units
        if given_unit != present_unit and (delta := _find_delta(indents, given_unit, present_unit)) is not None
    ]
    if not rules:
        return None
    _, given_unit, present_unit, delta = min(rules, key=lambda rule: rule[0])

    def rule(indent: str) -> str:
        levels = _split_levels(indent, given_unit)
        return indent if levels is None else present_unit * max(0, levels[0] + delta) + " " * levels[1]

    return rule


def _find_units(indents: Sequence[str]) -> list[str]:
    if any("\t" in indent for indent in indents):
        return ["\t"]
    width = gcd(*(len(indent) for indent in indents))
    widths = [width, *_WIDTHS] if width > 1 else list(_WIDTHS)
    return [" " * size for size in dict.fromkeys(widths)]


def _split_levels(indent: str, unit: str) -> tuple[int, int] | None:
    """Return (levels, extra spaces); None = the indentation is not made of this unit."""
    if unit == "\t":
        tabs = len(indent) - len(indent.lstrip("\t"))
        rest = indent[tabs:]
        return None if "\t" in rest else (tabs, len(rest))
    return None if "\t" in indent else divmod(len(indent), len(unit))


def _find_delta(indents: Sequence[tuple[str, str]], given_unit: str, present_unit: str) -> int | None:
    deltas = set()
    for draft_indent, present in indents:
        draft_levels, file_levels = _split_levels(draft_indent, given_unit), _split_levels(present, present_unit)
        if draft_levels is None or file_levels is None or draft_levels[1] != file_levels[1]:
            return None
        deltas.add(file_levels[0] - draft_levels[0])
    return deltas.pop() if len(deltas) == 1 else None
