"""Changes to YAML text at the places that its tree names: what is not changed stays byte for byte. Pure.

Every function gives the text of what it was handed with the change in it; offsets are into the whole front matter.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping as MappingOf
from collections.abc import Sequence as SequenceOf

from msgspec import Struct

from core.plans.scalars import written
from core.plans.yaml_nodes import Mapping, Node, Pair, Scalar, Sequence

Value = str | tuple[str, ...]


class Splice(Struct, frozen=True):
    """text[start:end] becomes `text`."""

    start: int
    end: int
    text: str


class Lines(Struct, frozen=True):
    """A text with its line ends, as the functions here need it."""

    text: str
    newline: str = "\n"

    def start(self, at: int) -> int:
        """Where the line of `at` begins."""
        return self.text.rfind("\n", 0, at) + 1

    def after(self, at: int) -> int:
        """Where the line after that of `at` begins."""
        found = self.text.find("\n", at)
        return len(self.text) if found < 0 else found + 1

    def stop(self, at: int) -> int:
        """Where the line of `at` ends, before its newline."""
        found = self.text.find("\n", at)
        end = len(self.text) if found < 0 else found
        return end - 1 if end > at and self.text[end - 1] == "\r" else end


def applied(text: str, splices: SequenceOf[Splice], start: int = 0, end: int | None = None) -> str:
    """text[start:end] with the splices in it."""
    parts, at = [], start
    for each in sorted(splices, key=lambda splice: (splice.start, splice.end)):
        parts += [text[at : each.start], each.text]
        at = each.end
    return "".join([*parts, text[at:end]])


def set_value(lines: Lines, mapping: Mapping, key: str, value: Value, *, after: SequenceOf[str] = ()) -> Splice:
    """Give `key` a value; a new key comes behind the last of `after` that there is, else at the end."""
    pair = mapping.get(key)
    if pair is None or pair.merged:
        return _new_key(lines, mapping, key, value, after)
    if isinstance(value, str):
        return _scalar_set(lines, mapping, pair, value)
    node = pair.value
    if isinstance(node, Sequence) and node.own:
        return ordered(lines, node, value, ids=scalar_ids(node), make=lambda _: "", edits={})
    return Splice(node.start, node.end, _gap(lines, node) + _flow(value))


def _scalar_set(lines: Lines, mapping: Mapping, pair: Pair, value: str) -> Splice:
    node = pair.value
    style = node.style if isinstance(node, Scalar) else ""
    text = written(value, style, flow=mapping.flow, indent=mapping.column + 2, newline=lines.newline)
    return Splice(node.start, node.end, _gap(lines, node) + text)


def _gap(lines: Lines, node: Node) -> str:
    """What an empty value needs before it: the parser places it right behind the colon."""
    return " " if node.start == node.end and lines.text[node.start - 1 : node.start] == ":" else ""


def _flow(value: tuple[str, ...]) -> str:
    return "[" + ", ".join(written(each, flow=True) for each in value) + "]"


def _new_key(lines: Lines, mapping: Mapping, key: str, value: Value, after: SequenceOf[str]) -> Splice:
    own = [pair for pair in mapping.pairs if not pair.merged]
    before = [pair for pair in own if pair.name in after] or own
    text = value if isinstance(value, str) else ""
    if mapping.flow:
        shown = written(text, flow=True) if isinstance(value, str) else _flow(value)
        at = before[-1].value.end if before else mapping.start + 1
        return Splice(at, at, f"{', ' if before else ''}{key}: {shown}")
    if not before:
        shown = written(text) if isinstance(value, str) else _flow(value)
        return Splice(mapping.end, mapping.end, f"{key}: {shown}{lines.newline}")
    shown = written(text, indent=mapping.column + 2, newline=lines.newline) if isinstance(value, str) else _flow(value)
    at = lines.stop(before[-1].value.end)
    return Splice(at, at, f"{lines.newline}{' ' * mapping.column}{key}: {shown}")


def scalar_ids(node: Sequence) -> list[str]:
    return [each.text or "" if isinstance(each, Scalar) else "" for each in node.items]


def ordered(
    lines: Lines,
    node: Sequence,
    wanted: SequenceOf[str],
    *,
    ids: SequenceOf[str],
    make: Callable[[str], str],
    edits: MappingOf[str, SequenceOf[Splice]],
) -> Splice:
    """The list with the items `wanted`, by their ids: those that it has move with their comments, `make` writes others
    (for a list of words it is not asked). `edits` are changes within items that stay."""
    if node.flow:
        return _ordered_flow(lines, node, wanted, ids, make, edits)
    chunks = dict(zip(ids, _chunks(lines, node), strict=True))
    pad = lines.text[lines.start(_dash(lines, node, 0)) : _dash(lines, node, 0)]
    start, end = next(iter(chunks.values()))[0], list(chunks.values())[-1][1]
    parts = []
    for key in wanted:
        if key in chunks:
            parts.append(_ended(lines, applied(lines.text, edits.get(key, ()), *chunks[key])))
        else:
            parts.append(f"{pad}- {make(key) or written(key)}{lines.newline}")
    return Splice(start, end, "".join(parts) or f"{pad}  []{lines.newline}")


def _ended(lines: Lines, text: str) -> str:
    return text if text.endswith("\n") else text + lines.newline


def _ordered_flow(
    lines: Lines,
    node: Sequence,
    wanted: SequenceOf[str],
    ids: SequenceOf[str],
    make: Callable[[str], str],
    edits: MappingOf[str, SequenceOf[Splice]],
) -> Splice:
    items = dict(zip(ids, node.items, strict=True))
    if list(wanted) == list(ids):
        splices = [each for key in wanted for each in edits.get(key, ())]
        return Splice(node.start, node.end, applied(lines.text, splices, node.start, node.end))
    parts = [
        applied(lines.text, edits.get(key, ()), items[key].start, items[key].end)
        if key in items
        else (make(key) or written(key, flow=True))
        for key in wanted
    ]
    return Splice(node.start, node.end, f"[{', '.join(parts)}]")


def _dash(lines: Lines, node: Sequence, index: int) -> int:
    """Where the dash of an item stands."""
    floor = node.items[index - 1].end if index else 0
    return lines.text.rfind("-", floor, max(node.items[index].start, floor + 1))


def _chunks(lines: Lines, node: Sequence) -> list[tuple[int, int]]:
    """The lines of each item: from the comments right above its dash to those of the next one."""
    starts = []
    for index in range(len(node.items)):
        start = lines.start(_dash(lines, node, index))
        floor = lines.after(node.items[index - 1].end) if index else start
        while start > floor and lines.text[lines.start(start - 1) : start].lstrip(" \t").startswith("#"):
            start = lines.start(start - 1)
        starts.append(start)
    return list(zip(starts, [*starts[1:], lines.after(node.items[-1].end)], strict=True))


def new_list(lines: Lines, root: Mapping, key: str, rows: SequenceOf[str]) -> Splice:
    """Fill the list `key`, which is empty or is not there, with `rows` (without their dashes)."""
    pair = root.get(key)
    if root.flow:
        text = f"[{', '.join(rows)}]"
        if pair is not None and not pair.merged:
            return Splice(pair.value.start, pair.value.end, _gap(lines, pair.value) + text)
        at = root.pairs[-1].value.end if root.pairs else root.start + 1
        return Splice(at, at, f"{', ' if root.pairs else ''}{key}: {text}")
    block = "".join(f"  - {row}{lines.newline}" for row in rows)
    if pair is None or pair.merged:
        at = lines.after(root.end) if root.pairs else root.end
        return Splice(at, at, f"{key}:{lines.newline}{block}")
    at, colon = lines.stop(pair.value.end), lines.text.index(":", pair.key.end) + 1
    rest = lines.text[pair.value.end : at].rstrip()
    return Splice(colon, at, f"{rest}{lines.newline}{block}".removesuffix(lines.newline))
