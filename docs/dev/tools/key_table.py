"""Writes `docs/keys.md` from the tables of the program: `python docs/dev/tools/key_table.py`."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[3]
TARGET: Final = ROOT / "docs" / "keys.md"
HEAD: Final = """\
<!-- written by python docs/dev/tools/key_table.py -->

# Keys and commands

All keys, pane by pane, then all commands of the prompt. Change a key by its id in your `config.toml`
([settings](settings-and-trouble.md)):

```toml
[ui.keymap]
"review.accept" = "space"
"prompt.newline" = "ctrl+j,alt+enter"
```

On screen, `F1` shows the keys that work where you are and searches all of them; `Ctrl+P` searches all commands, the
last used first.
"""


def page() -> str:
    """The whole page, as Markdown. It names no mode, so that a new one changes no page."""
    from core.modes import Mode
    from tui.keymap import SCOPE_TITLES, group_by_scope
    from tui.slash_commands import SLASH_COMMANDS

    parts = [HEAD]
    for scope, keys in group_by_scope().items():
        rows = [f"| `{key.id}` | {_keys(key.keys)} | {_cell(key.label)} | {_cell(key.tooltip)} |" for key in keys]
        parts.append(
            "\n".join([f"## {SCOPE_TITLES[scope]}\n", "| id | keys | name | does |", "|---|---|---|---|", *rows, ""])
        )
    rows = [f"| `/{each.word}` | {_cell(each.argument)} | {_cell(each.label)} |" for each in SLASH_COMMANDS]
    parts.append("\n".join(["## Commands in the prompt\n", "| command | takes | does |", "|---|---|---|", *rows, ""]))
    named = {", ".join(mode.title() for mode in Mode): "the modes", _cell(" | ".join(Mode)): "name of a mode"}
    return re.sub("|".join(map(re.escape, named)), lambda found: named[found[0]], "\n".join(parts))


def _keys(keys: str) -> str:
    return " ".join(f"`{key.replace('full_stop', '.')}`" for key in keys.split(","))


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    TARGET.write_text(page(), encoding="utf-8")
