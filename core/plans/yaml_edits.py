"""Changes to YAML text at the places that its tree names: what is not changed stays byte for byte. Pure.

Every function gives the text of what it was handed with the change in it; offsets are into the whole front matter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from core.plans.yaml_nodes import YamlMapping, YamlNode, YamlScalar, YamlSequence
from core.plans.yaml_scalars import FieldText, format_scalar, format_value
from core.text.lines import Splice, apply_splices


class YamlText(Struct, frozen=True):
    """A text with its line ends."""

    text: str
    newline: str = "\n"

    def find_line_start(self, offset: int) -> int:
        """The offset where the line of `offset` begins."""
        return self.text.rfind("\n", 0, offset) + 1

    def find_next_line(self, offset: int) -> int:
        """The offset where the line after that of `offset` begins."""
        newline_offset = self.text.find("\n", offset)
        return len(self.text) if newline_offset < 0 else newline_offset + 1

    def find_line_end(self, offset: int) -> int:
        """The offset where the line of `offset` ends, before its newline."""
        newline_offset = self.text.find("\n", offset)
        end = len(self.text) if newline_offset < 0 else newline_offset
        return end - 1 if end > offset and self.text[end - 1] == "\r" else end


def set_value(
    lines: YamlText, mapping: YamlMapping, key: str, value: FieldText, *, after: Sequence[str] = ()
) -> Splice:
    """Give `key` a value; a new key comes behind the last of `after` that there is, else at the end."""
    pair = mapping.find_pair(key)
    if pair is None or pair.is_merged:
        return _add_key(lines, mapping, key, value, after)
    node = pair.value
    if isinstance(value, str):
        style = node.style if isinstance(node, YamlScalar) else ""
        text = format_scalar(value, style, flow=mapping.is_flow, indent=mapping.column + 2, newline=lines.newline)
    elif isinstance(node, YamlSequence) and node.is_own:
        return reorder_list(lines, node, value, ids=list_scalar_texts(node), make=lambda _: "", edits={})
    else:
        text = format_value(value)
    return Splice(node.start, node.end, _find_gap(lines, node) + text)


def _find_gap(lines: YamlText, node: YamlNode) -> str:
    """The space that an empty value needs before it: the parser places it right behind the colon."""
    return " " if node.start == node.end and lines.text[node.start - 1 : node.start] == ":" else ""


def _add_key(lines: YamlText, mapping: YamlMapping, key: str, value: FieldText, after: Sequence[str]) -> Splice:
    own_pairs = [pair for pair in mapping.pairs if not pair.is_merged]
    before = [pair for pair in own_pairs if pair.name in after] or own_pairs
    row = f"{key}: {format_value(value, flow=mapping.is_flow)}"
    if mapping.is_flow:
        offset = before[-1].value.end if before else mapping.start + 1
        return Splice(offset, offset, f"{', ' if before else ''}{row}")
    if not before:
        return Splice(mapping.end, mapping.end, f"{row}{lines.newline}")
    offset = lines.find_line_end(before[-1].value.end)
    return Splice(offset, offset, f"{lines.newline}{' ' * mapping.column}{row}")


def list_scalar_texts(node: YamlSequence) -> list[str]:
    """List what the items of a list say; "" for one that is no word."""
    return [child.text or "" if isinstance(child, YamlScalar) else "" for child in node.items]


def reorder_list(
    lines: YamlText,
    node: YamlSequence,
    order: Sequence[str],
    *,
    ids: Sequence[str],
    make: Callable[[str], str],
    edits: Mapping[str, Sequence[Splice]],
) -> Splice:
    """Return the list with the items `order`, by their ids: those that it has move with their comments, `make`
    writes others (for a list of words it is not asked). `edits` are changes within items that stay."""
    if node.is_flow and list(order) == list(ids):
        splices = [splice for key in order for splice in edits.get(key, ())]
        return Splice(node.start, node.end, apply_splices(lines.text, splices, node.start, node.end))
    if node.is_flow:
        pad, lead, item_spans = "", "", [(child.start, child.end) for child in node.items]
    else:
        dash = _find_dash(lines, node, 0)
        pad = lines.text[lines.find_line_start(dash) : dash]
        lead, item_spans = f"{pad}- ", _find_chunks(lines, node)
    spans = dict(zip(ids, item_spans, strict=True))
    parts = [
        apply_splices(lines.text, edits.get(key, ()), *spans[key])
        if key in spans
        else lead + (make(key) or format_scalar(key, flow=node.is_flow))
        for key in order
    ]
    if node.is_flow:
        return Splice(node.start, node.end, f"[{', '.join(parts)}]")
    rows = [part if part.endswith("\n") else part + lines.newline for part in parts] or [f"{pad}  []{lines.newline}"]
    return Splice(next(iter(spans.values()))[0], list(spans.values())[-1][1], "".join(rows))


def _find_dash(lines: YamlText, node: YamlSequence, index: int) -> int:
    floor = node.items[index - 1].end if index else 0
    return lines.text.rfind("-", floor, max(node.items[index].start, floor + 1))


def _find_chunks(lines: YamlText, node: YamlSequence) -> list[tuple[int, int]]:
    """The lines of each item as offsets: from the comments right above its dash to those of the next one."""
    starts = []
    for index in range(len(node.items)):
        start = lines.find_line_start(_find_dash(lines, node, index))
        floor = lines.find_next_line(node.items[index - 1].end) if index else start
        while start > floor and lines.text[lines.find_line_start(start - 1) : start].lstrip(" \t").startswith("#"):
            start = lines.find_line_start(start - 1)
        starts.append(start)
    return list(zip(starts, [*starts[1:], lines.find_next_line(node.items[-1].end)], strict=True))


def fill_list(lines: YamlText, root: YamlMapping, key: str, rows: Sequence[str]) -> Splice:
    """Fill the list `key`, which is empty or is not there, with `rows` (without their dashes)."""
    pair = root.find_pair(key)
    if root.is_flow:
        text = f"[{', '.join(rows)}]"
        if pair is not None and not pair.is_merged:
            return Splice(pair.value.start, pair.value.end, _find_gap(lines, pair.value) + text)
        offset = root.pairs[-1].value.end if root.pairs else root.start + 1
        return Splice(offset, offset, f"{', ' if root.pairs else ''}{key}: {text}")
    block = "".join(f"  - {row}{lines.newline}" for row in rows)
    if pair is None or pair.is_merged:
        offset = lines.find_next_line(root.end) if root.pairs else root.end
        return Splice(offset, offset, f"{key}:{lines.newline}{block}")
    offset, colon = lines.find_line_end(pair.value.end), lines.text.index(":", pair.key.end) + 1
    rest = lines.text[pair.value.end : offset].rstrip()
    return Splice(colon, offset, f"{rest}{lines.newline}{block}".removesuffix(lines.newline))
