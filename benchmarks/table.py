"""One measured thing, and the table of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

HEAD = ("measured", "ours", "limit", "yardstick", "ratio", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """`value` and `limit` in `unit`. With `yardstick`, the same measured of something known; `ratio_limit` is the
    limit as a multiple of it. Without any limit the value is there to be watched.
    """

    what: str
    value: float
    unit: str
    limit: float | None = None
    yardstick: float | None = None
    yardstick_name: str = ""
    ratio_limit: float | None = None

    @property
    def ratio(self) -> float | None:
        return self.value / self.yardstick if self.yardstick else None

    @property
    def held(self) -> bool | None:
        """Whether every limit is held; None if there is none."""
        verdicts = [] if self.limit is None else [round(self.value, 6) <= self.limit]
        if self.ratio_limit is not None and self.ratio is not None:
            verdicts.append(self.ratio <= self.ratio_limit)
        return all(verdicts) if verdicts else None


def amount(value: float, unit: str) -> str:
    """A number with as many digits as mean something, and its unit."""
    digits = 2 if value < 1 else 1 if value < 100 else 0
    if unit == "s":
        digits = 3 if value < 0.1 else 2
    return f"{value:.{digits}f} {unit}"


def _cells(result: Result) -> tuple[str, ...]:
    limits = [] if result.limit is None else [f"≤ {result.limit:g} {result.unit}"]
    if result.ratio_limit is not None:
        limits.append(f"≤ {result.ratio_limit:g} ×")
    yardstick = "" if result.yardstick is None else f"{amount(result.yardstick, result.unit)} ({result.yardstick_name})"
    ratio = "" if result.ratio is None else f"{result.ratio:.2f} ×"
    verdict = {True: "held", False: "**missed**", None: ""}[result.held]
    return result.what, amount(result.value, result.unit), ", ".join(limits), yardstick, ratio, verdict


def markdown(results: Sequence[Result]) -> str:
    """The results as a Markdown table."""
    rows = [HEAD, ("---",) * len(HEAD), *map(_cells, results)]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def line(result: Result) -> str:
    """One result for the terminal."""
    label, *rest = _cells(result)
    return f"{label:<66} {'  '.join(filter(None, rest))}"
