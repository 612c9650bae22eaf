"""The gallery, made by the program itself: `make gallery` writes docs/gallery.md and a sheet for each screen.

The demo is played as for the README's pictures; at each screen the window takes every size, and the colours every form.
A sheet is a picture of all of them, which Chromium draws: one file for a screen keeps the repository small.
"""

from __future__ import annotations

import asyncio
import base64
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
SHEETS: Final = ROOT / "docs" / "gallery"
SIZES: Final = ((60, 16), (80, 24), (200, 60), (120, 40))  # the last one is that of the colours
LOOKS: Final = (("agent-light", "truecolor"), ("agent-dark", "256"), ("agent-dark", "16"))
SHEET: Final = (1600, 2060)  # pixels
ABOUT: Final = {
    "start": "The first frame of a session: what it promises, and the keys to begin with.",
    "chat": "A finished answer in Ask mode, with what was read for it.",
    "plan": "A plan: its todos, and the text behind them.",
    "review": "What the agent changed, in one scroll; each hunk is judged by a key.",
    "editor": "A hunk, edited in place.",
    "palette": "All commands, searched.",
    "help": "F1: the place with the focus, and all keys.",
    "commands": "The commands of the prompt.",
    "approval": "A command that asks before it runs.",
}

if TYPE_CHECKING:
    from tui.app import AgentApp

Shot = tuple[str, str]


class Gallery:
    """Takes every form of a screen."""

    def __init__(self, app: AgentApp, photographer: Any) -> None:
        self._app, self._photographer = app, photographer
        self.shots: dict[str, list[Shot]] = {}

    async def take(self, name: str) -> None:
        """Keep what the screen looks like at each size, and in each form of the colours."""
        shots = self.shots.setdefault(name, [])
        for columns, rows in SIZES:
            await self._photographer.resize((columns, rows))
            shots.append((f"{columns}×{rows}", self._export()))
        for theme, depth in LOOKS:
            await self._show(theme, depth)
            shots.append((f"120×40 · {theme.removeprefix('agent-')} · {depth} colours", self._export()))
        await self._show("agent-dark", "truecolor")

    async def _show(self, theme: str, depth: Any) -> None:
        self._app.appearance.set_depth(depth)
        self._app.appearance.choose(theme)
        self._app.show_appearance()
        await self._photographer.press()
        await asyncio.sleep(0.3)

    def _export(self) -> str:
        from docs.pictures import self_contained

        return self_contained(self._app.export_screenshot(title=""))


async def play(directory: Path) -> dict[str, list[Shot]]:
    """Play the demo; return the pictures of each screen."""
    from core.user_dirs import get_config_dir
    from docs.pictures import OnScreen
    from tui.bridge import SessionRequest
    from tui.review.diff.view import DiffView

    get_config_dir().mkdir(parents=True, exist_ok=True)
    (get_config_dir() / "config.toml").write_text('[commands]\npolicy = "confirm"\n')
    async with OnScreen(directory, SessionRequest(demo=True)) as (app, photographer):
        gallery = Gallery(app, photographer)
        await photographer.until(lambda: photographer.state.suggestion is not None)
        await gallery.take("start")
        await photographer.next_turn(1)
        await gallery.take("chat")
        for name, keys, back in (("palette", ("ctrl+p",), "escape"), ("help", ("f1",), "escape")):
            await photographer.press(*keys)
            await gallery.take(name)
            await photographer.press(back)
        await photographer.press("/")
        await gallery.take("commands")
        await photographer.press("escape", "backspace")
        await photographer.next_turn(2)
        await photographer.press("ctrl+t")
        await gallery.take("plan")
        await photographer.press("escape")
        await photographer.next_turn(3)
        await photographer.press("ctrl+r")
        await photographer.until(lambda: app.main.query_one(DiffView).diff is not None)
        await gallery.take("review")
        await photographer.press("e")
        await gallery.take("editor")
        await photographer.press("escape", "ctrl+r", *"/accept all", "enter")
        await photographer.until(lambda: not photographer.state.changes)
        await photographer.press("enter")
        await photographer.until(lambda: photographer.state.approvals)
        await gallery.take("approval")
        await photographer.press("f2")
        await asyncio.sleep(0.6)  # the keys of an approval sleep for half a second
        await photographer.press("n")
        await photographer.until(lambda: not photographer.state.is_running)
        return gallery.shots


async def draw_sheets(shots: dict[str, list[Shot]], scratch: Path) -> None:
    """Write a sheet for each screen."""
    from tests.support.chromium import browsing

    SHEETS.mkdir(exist_ok=True)
    async with browsing(scratch, *SHEET) as tab:
        for name, pictures in shots.items():
            page = scratch / f"{name}.html"
            page.write_text(build_page(pictures))
            await tab.open(page.as_uri())
            await tab.see("document.images.length && [...document.images].every(each => each.complete)")
            told = await tab.call("Page.captureScreenshot", format="webp", quality=70)
            (SHEETS / f"{name}.webp").write_bytes(base64.b64decode(told["data"]))
            sys.stdout.write(f"docs/gallery/{name}.webp\n")


def build_page(pictures: list[Shot]) -> str:
    """Return a page with the pictures of one screen, two in a row."""
    figures = [
        f'<figure><img src="data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"><figcaption>{told}'
        "</figcaption></figure>"
        for told, svg in pictures
    ]
    style = (
        "body{margin:8px;background:#888;display:grid;grid-template-columns:1fr 1fr;gap:8px;font:14px sans-serif}"
        "figure{margin:0}img{width:100%;max-height:480px;object-fit:contain;object-position:left}"
    )
    return f"<!doctype html><meta charset=utf-8><style>{style}</style>{''.join(figures)}"


def build_document() -> str:
    """Return docs/gallery.md."""
    sizes = ", ".join(f"{columns}×{rows}" for columns, rows in sorted(SIZES))
    parts = [
        "# Gallery",
        f"Each screen at {sizes} (dark, 24-bit colours), and at 120×40 light, with 256 and with 16 colours.",
        "Made by the program: `make gallery`.",
    ]
    parts += [f"## {name.title()}\n\n{about}\n\n![{name}](gallery/{name}.webp)" for name, about in ABOUT.items()]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Make the gallery."""
    sys.path.insert(0, str(ROOT))
    from docs import pictures

    with tempfile.TemporaryDirectory(prefix="gallery-") as name:
        scratch = Path(name)
        pictures._as_a_stranger(scratch)
        (scratch / "shop").mkdir()
        shots = asyncio.run(play(scratch / "shop"))
        asyncio.run(draw_sheets(shots, scratch))
    (ROOT / "docs" / "gallery.md").write_text(build_document(), encoding="utf-8")


if __name__ == "__main__":
    main()
