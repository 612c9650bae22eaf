"""JSON that was put together from pieces: the commas between entries."""

from __future__ import annotations

import re
from itertools import pairwise

_VALUE_END = re.compile(r'(?:["\d}\]]|true|false|null)\s*$')
_ENTRY = re.compile(r'\s*(?:["{\[\d-]|true|false|null)')


def repair_commas(text: str) -> str:
    """Put a comma after each line that ends an entry before another one, and none before a closing bracket."""
    rows = text.splitlines(keepends=True)
    filled = [index for index, row in enumerate(rows) if row.strip() and not row.lstrip().startswith("//")]
    for here, after in pairwise(filled):
        body = rows[here].rstrip("\r\n")
        end = rows[here][len(body) :]
        if re.match(r"\s*[}\]]", rows[after]):
            rows[here] = re.sub(r",\s*$", "", body) + end
        elif _VALUE_END.search(body) and _ENTRY.match(rows[after]):
            rows[here] = body.rstrip() + "," + end
    return "".join(rows)
