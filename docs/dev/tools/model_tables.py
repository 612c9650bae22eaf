"""Writes the tables of `docs/models.md` from the data of the program: `python docs/dev/tools/model_tables.py`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, get_args

ROOT: Final = Path(__file__).resolve().parents[3]
TARGET: Final = ROOT / "docs" / "models.md"
_TABLE: Final = re.compile(r"(<!-- (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
_DATED: Final = re.compile(r"-\d{8}|-\d{4}(-\d\d-\d\d)?|-preview|-latest")
_OTHERS: Final = (
    "gemini-3.8-flash",
    "mistral-medium-latest",
    "deepseek-v4-pro",
    "kimi-k2.5",
    "grok-4.7",
    "gpt-oss-120b",
    "qwen3-coder:30b",
)


def page(text: str) -> str:
    """The text with its tables made anew."""
    made = {"providers": _providers, "models": _models}
    return _TABLE.sub(lambda found: f"{found[1]}{chr(10).join(made[found[2]]())}\n{found[3]}", text)


def _providers() -> Iterator[str]:
    from core.providers.catalog.presets import KNOWN

    yield "| id | provider | address | key | speaks |"
    yield "|---|---|---|---|---|"
    for name, known in KNOWN.items():
        where = f"`{known.base_url}`" if known.base_url else f"`${known.host_variable}`"
        key = f"`{known.key_variable}`" if known.key_variable else "none"
        speaks = "messages" if known.kind == "anthropic" else "responses" if name == "openai" else "chat completions"
        yield f"| `{name}` | {known.label} | {where} | {key} | {speaks} |"


def _models() -> Iterator[str]:
    from core.providers.catalog.capabilities import find_canonical_capabilities

    yield "| model | speaks | effort | thinking | pictures | PDF | window | answer |"
    yield "|---|---|---|---|---|---|---|---|"
    for name in _names():
        can = find_canonical_capabilities(name)
        efforts = f"{can.efforts[0]} … {can.efforts[-1]}" if can.efforts else "–"
        efforts += f" ({can.default_effort})" if can.default_effort else ""
        cells = (
            f"`{name}`",
            str(can.wire or "chat"),
            efforts,
            ", ".join(can.thinking).replace("_", " ") or "–",
            _yes(can.images),
            _yes(can.pdf),
            _thousands(can.context_window),
            _thousands(can.max_output),
        )
        yield f"| {' | '.join(cells)} |"


def _names() -> list[str]:
    """The ids that both SDKs know, without dated and preliminary ones, and a few of other hosts."""
    from anthropic.types.model import Model
    from openai.types.shared.chat_model import ChatModel

    from core.providers.catalog.capabilities import is_chat_model

    known = [*_literals(Model), *_literals(ChatModel)]
    return [each for each in known if not _DATED.search(each) and is_chat_model(each)] + list(_OTHERS)


def _literals(union: object) -> Iterator[str]:
    for each in get_args(union):
        if isinstance(each, str):
            yield each
        else:
            yield from _literals(each)


def _yes(can: bool) -> str:
    return "yes" if can else "–"


def _thousands(tokens: int) -> str:
    return f"{tokens // 1000:,} k" if tokens else "?"


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    TARGET.write_text(page(TARGET.read_text(encoding="utf-8")), encoding="utf-8")
