"""Changes to YAML text at the positions of its nodes, and scalars as text: unchanged text stays byte for byte. Pure.

Every function returns the changed text of its argument; offsets are into the whole front matter. A new scalar is
written like the scalar that it replaces where that style can express it, else quoted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from core.patterns import compile_lazily
from core.plans.yaml_parser import YamlMapping, YamlNode, YamlScalar, YamlSequence
from core.text.lines import Splice, apply_splices

_FIRST = compile_lazily(r"[^\s\-?:,\[\]{}#&*!|>'\"%@`=<~]")
_NOT_PLAIN = compile_lazily(r": |:$| #|[\t\n\r]|^\s|\s$|^---|^\.\.\.")
_NOT_IN_FLOW = compile_lazily(r"[,\[\]{}:#]")
_OTHER_TYPE = compile_lazily(
    r"(?i)(?:null|true|false|yes|no|on|off|y|n|[-+]?[.\d][\d_.:eExXoObBa-f+-]*|[-+]?\.(?:inf|nan)|\d{4}-\d\d?-\d\d?.*)"
)
_ESCAPED = compile_lazily("[\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff\ufffe\uffff]")
FieldText = str | tuple[str, ...]


class YamlText(Struct, frozen=True):
    """A text with its line ending."""

    text: str
    newline: str = "\n"

    def find_line_start(self, offset: int) -> int:
        """Return the offset of the start of the line at `offset`."""
        return self.text.rfind("\n", 0, offset) + 1

    def find_next_line(self, offset: int) -> int:
        """Return the offset of the start of the line after the one at `offset`."""
        newline_offset = self.text.find("\n", offset)
        return len(self.text) if newline_offset < 0 else newline_offset + 1

    def find_line_end(self, offset: int) -> int:
        """Return the offset of the end of the line at `offset`, before its newline."""
        newline_offset = self.text.find("\n", offset)
        end = len(self.text) if newline_offset < 0 else newline_offset
        return end - 1 if end > offset and self.text[end - 1] == "\r" else end


def set_value(
    lines: YamlText, mapping: YamlMapping, key: str, value: FieldText, *, after: Sequence[str] = ()
) -> Splice:
    """Set the value of `key`; a new key is inserted behind the last present one of `after`, else at the end."""
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
    """Return the space before an empty value, which the parser positions right behind the colon."""
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
    """List the texts of the items of a list; "" for an item that is no scalar."""
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
    """Return the list with the items `order`, by their ids.

    Present items move with their comments; `make` renders others ("" = the id itself). `edits` are changes within
    present items.
    """
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
    """Return the span of every item in offsets: from the comments right above its dash to those of the next one."""
    starts = []
    for index in range(len(node.items)):
        start = lines.find_line_start(_find_dash(lines, node, index))
        floor = lines.find_next_line(node.items[index - 1].end) if index else start
        while start > floor and lines.text[lines.find_line_start(start - 1) : start].lstrip(" \t").startswith("#"):
            start = lines.find_line_start(start - 1)
        starts.append(start)
    return list(zip(starts, [*starts[1:], lines.find_next_line(node.items[-1].end)], strict=True))


def fill_list(lines: YamlText, root: YamlMapping, key: str, rows: Sequence[str]) -> Splice:
    """Fill the list `key`, which is empty or missing, with `rows` (without their dashes)."""
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


def format_value(value: FieldText, *, flow: bool = False) -> str:
    """Format a value in one line; several words are a list in brackets. `flow`: the value is within brackets or
    braces."""
    if isinstance(value, str):
        return format_scalar(value, flow=flow)
    return f"[{', '.join(format_scalar(word, flow=True) for word in value)}]"


def format_scalar(text: str, style: str = "", *, flow: bool = False, indent: int = 2, newline: str = "\n") -> str:
    """Format `text` as a scalar, in `style` if possible ("" = plain). `indent`: of the lines of a block scalar."""
    odd = not text.isprintable() and (
        _ESCAPED.search(text) or any(character < " " and character != "\n" for character in text)
    )
    if style in {"|", ">"} and not flow and not odd and "\n" in text and _can_be_block(text):
        head, lines = ("|" if text.endswith("\n") else "|-"), text.removesuffix("\n").split("\n")
        return head + "".join(f"{newline}{' ' * indent}{line}" if line else newline for line in lines)
    if odd or "\n" in text or style == '"':
        return _ESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(text, ensure_ascii=False))
    if style == "'" or not _is_plain(text, flow=flow):
        return "'" + text.replace("'", "''") + "'"
    return text


def _is_plain(text: str, *, flow: bool) -> bool:
    if not _FIRST.match(text) or _NOT_PLAIN.search(text) or _OTHER_TYPE.fullmatch(text):
        return False
    return not (flow and _NOT_IN_FLOW.search(text))


def _can_be_block(text: str) -> bool:
    """True if a block scalar without an indentation indicator represents exactly this text."""
    return bool(text.strip()) and not text.startswith((" ", "\n")) and not text.endswith("\n\n")
