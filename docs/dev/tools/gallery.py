"""The gallery, made by the program itself: `make gallery` writes docs/dev/gallery.md and a sheet for each screen.

The scenes of the README's pictures and a few more are played; at each screen the window takes every size, and the
colours every form. A sheet is a picture of all of them, drawn by Chromium: one file a screen keeps the repository
small.
"""

from __future__ import annotations

import asyncio
import base64
import io
import sys
import tempfile
from itertools import product
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple

import rich.console
from rich.terminal_theme import TerminalTheme

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from docs.dev.tools import gallery_scenes, pictures
from docs.dev.tools.photographer import ROOT, WIDE, OnScreen, Photographer, live_as_a_stranger, self_contained

SHEETS: Final = ROOT / "docs" / "dev" / "gallery"
SIZES: Final = ((60, 16), (80, 24), (200, 60))
COLORS: Final = (120, 40)  # the size of all forms of the colours
THEMES: Final = ("agent-dark", "agent-light")
DEPTHS: Final = ("truecolor", "256", "16")
CELL: Final = (6, 12)  # pixels of a letter on a sheet, about
SETTLED: Final = 0.4  # seconds in which what is coloured behind the first paint has its colours
PALETTE: Final = 128  # colours of a sheet's file
ABOUT: Final = {
    "welcome": "The first start, without a key.",
    "start": "The first frame of a session: what it promises, and the keys to begin with.",
    "tour": "The tour: one line above the prompt, a step at a time.",
    "home": "A start in a project with sessions: what is open, what waits, the latest.",
    "sessions": "All sessions, and a search of what was said and done in them.",
    "streaming": "An answer on its way: Markdown is drawn while it comes.",
    "ask": "A finished answer in Ask mode, with what was read for it.",
    "receipt": "The end of a turn: what it changed, what was checked, what it took.",
    "finder": "`@`: files, directories and symbols for the prompt.",
    "commands": "`/`: the commands of the prompt.",
    "palette": "All commands, searched.",
    "help": "F1: the place with the focus, and all keys.",
    "settings": "`/config`: what holds, and where it comes from.",
    "models": "The models of all providers.",
    "search": "A search of the project by what its code means.",
    "plan": "A plan: its todos, and the text behind them.",
    "plan-graph": "Which todo waits for which.",
    "plan-comments": "Comments on todos, before they are sent.",
    "plan-parallel": "Four subagents on four todos.",
    "questions": "What the agent asks, as tabs.",
    "approval": "A command that asks before it runs.",
    "jobs": "`/jobs`: a command in the background, what it writes and what it has changed.",
    "roster": "The subagents of a turn.",
    "best": "Three candidates of one prompt, side by side.",
    "review": "What the agent changed, in one scroll; each hunk is judged by a key.",
    "proof": "What the project's own tests say of each hunk.",
    "proof-list": "The same as a list, in the order in which the hunks are worth reading.",
    "editor": "A hunk, edited in place.",
    "conflict": "The user and the agent have both changed a line.",
    "commit": "A commit of what was accepted, and nothing else.",
    "findings": "What `/review` has found.",
    "debug": "Debug mode: hypotheses, evidence, and the question whether it is fixed.",
    "debug-runs": "Two runs, before the fix and behind it.",
}


_DIM: Final = (
    (0, 0, 0),
    (205, 0, 0),
    (0, 205, 0),
    (205, 205, 0),
    (0, 0, 238),
    (205, 0, 205),
    (0, 205, 205),
    (229,) * 3,
)
_BRIGHT: Final = (
    (127,) * 3,
    (255, 0, 0),
    (0, 255, 0),
    (255, 255, 0),
    (92, 92, 255),
    (255, 0, 255),
    (0, 255, 255),
    (255,) * 3,
)
XTERM: Final = {
    "agent-dark": TerminalTheme(_DIM[0], _DIM[-1], list(_DIM), list(_BRIGHT)),
    "agent-light": TerminalTheme(_BRIGHT[-1], _DIM[0], list(_DIM), list(_BRIGHT)),
}


class Shot(NamedTuple):
    """A picture of a screen; `size` in columns and rows."""

    size: tuple[int, int]
    colors: str
    svg: str

    @property
    def caption(self) -> str:
        return f"{self.size[0]}×{self.size[1]} · {self.colors}"


class GalleryPhotographer(Photographer):
    """Takes every form of a screen; those of all screens are in `shots`."""

    shots: ClassVar[dict[str, list[Shot]]] = {}

    async def take(self, name: str) -> None:
        """Keep what the screen looks like at each size, and in each form of the colours."""
        shots = self.shots[name] = []
        await self.resize(COLORS)
        for depth, theme in product(DEPTHS, THEMES):
            await self._show(theme, depth)
            shots.append(self._shoot(COLORS, theme, depth))
        await self._show("agent-dark", "truecolor")
        for size in SIZES:
            await self.resize(size)
            await asyncio.sleep(SETTLED)
            shots.insert(0, self._shoot(size, "agent-dark", "truecolor"))
        await self.resize(WIDE)
        sys.stdout.write(f"{name}\n")

    async def take_small(self, _: str, *keys: str) -> None:
        """Press the keys: every screen is taken at the small size."""
        await self.press(*keys)

    async def _show(self, theme: str, depth: Any) -> None:
        self._app.appearance.set_depth(depth)
        self._app.appearance.choose(theme)
        self._app.show_appearance()
        await asyncio.sleep(SETTLED)
        await self.press()

    def _shoot(self, size: tuple[int, int], theme: str, depth: str) -> Shot:
        vars(rich.console)["SVG_EXPORT_THEME"] = XTERM[theme]
        colors = f"{theme.removeprefix('agent-')}, {'24-bit' if depth == 'truecolor' else depth} colours"
        return Shot(size, colors, self_contained(self._app.export_screenshot(title="")))


async def draw_sheets(shots: dict[str, list[Shot]], scratch: Path) -> None:
    """Write a sheet for each screen."""
    from tests.support.chromium import browsing

    SHEETS.mkdir(exist_ok=True)
    width = 2 * (COLORS[0] + 4) * CELL[0]
    async with browsing(scratch, width, width) as tab:
        for name, pictures_of_it in shots.items():
            page = scratch / f"{name}.html"
            page.write_text(build_page(pictures_of_it))
            await tab.open(page.as_uri())
            await tab.see("document.images.length && [...document.images].every(each => each.complete)")
            height = await tab.run("document.documentElement.scrollHeight")
            whole = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
            told = await tab.call("Page.captureScreenshot", format="png", clip=whole, captureBeyondViewport=True)
            (SHEETS / f"{name}.webp").write_bytes(_compress(base64.b64decode(told["data"])))


def _compress(png: bytes) -> bytes:
    """The picture with few colours, without a loss beyond that: letters stay sharp in a small file."""
    from PIL import Image

    written = io.BytesIO()
    # An octree keeps the hue of what is small; a median cut would make greys of the letters.
    picture = (
        Image.open(io.BytesIO(png))
        .convert("RGB")
        .quantize(PALETTE, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    )
    picture.convert("RGB").save(written, "webp", lossless=True, quality=75, method=4)
    return written.getvalue()


def build_page(shots: list[Shot]) -> str:
    """Return a page with the pictures of one screen, letters of the same size in each."""
    figures = [
        f'<figure><figcaption>{shot.caption}</figcaption><img style="width:{shot.size[0] * CELL[0]}px" '
        f'src="data:image/svg+xml;base64,{base64.b64encode(shot.svg.encode()).decode()}"></figure>'
        for shot in shots
    ]
    style = "body{margin:8px;background:#777;display:flex;flex-wrap:wrap;gap:8px;font:13px sans-serif}figure{margin:0}"
    return f"<!doctype html><meta charset=utf-8><style>{style}</style>{''.join(figures)}"


def build_document() -> str:
    """Return docs/dev/gallery.md."""
    sizes = ", ".join(f"{columns}×{rows}" for columns, rows in sorted((*SIZES, COLORS)))
    parts = [
        "# Gallery",
        f"Each screen at {sizes} in 24-bit colours, and at {COLORS[0]}×{COLORS[1]} dark and light with 24-bit, 256\n"
        "and 16 colours (here those of xterm). Made by the program: `make gallery`.",
    ]
    parts += [
        f"## {name.title().replace('-', ': ')}\n\n{about}\n\n![{name}](gallery/{name}.webp)"
        for name, about in ABOUT.items()
    ]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Make the gallery."""
    OnScreen.photographer = GalleryPhotographer
    with tempfile.TemporaryDirectory(prefix="gallery-") as name:
        scratch = Path(name)
        live_as_a_stranger(scratch)
        gallery_scenes.play_all(scratch)
        pictures.play_all(scratch)
        asyncio.run(draw_sheets(GalleryPhotographer.shots, scratch))
    (ROOT / "docs" / "dev" / "gallery.md").write_text(build_document(), encoding="utf-8")


if __name__ == "__main__":
    main()
