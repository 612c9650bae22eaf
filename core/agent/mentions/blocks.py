"""The blocks of a message with the context of a prompt, bounded in size. Unchanged text is not sent twice.

Every item becomes one block, whatever its size: a note in a clipped block says where to read the rest.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final

from msgspec import Struct

from core.agent.base.prompt_tags import escape_attribute, escape_tags
from core.agent.mentions.discovery import MAX_LISTED, is_outlined
from core.agent.mentions.resolution import MAX_LINED, PAGE, RESOURCE
from core.agent.mentions.sources import ContextSources
from core.attachments.preparation import MAX_INPUT_BYTES
from core.attachments.signature import SNIFF_BYTES, detect_media_type
from core.errors import PathRefused
from core.notebooks.notebook import LARGEST, is_notebook_path
from core.notebooks.rendering import find_notebook_text
from core.protocol.queries import ContextItem
from core.text.lines import cut_lines
from core.tools.base import Reader, ShownPage

MAX_FILE: Final = 60_000  # bytes of a mentioned file
MAX_TOTAL: Final = 200_000
MAX_DISCOVERED: Final = 8_000  # bytes of a file that a sentence only names
MAX_DISCOVERED_TOTAL: Final = 24_000
MAX_PICTURES: Final = 10
MAX_OUTLINE: Final = 120  # symbols
SHOWN: Final = "unchanged since it was sent above"


class ContextBlocks(Struct, frozen=True, kw_only=True):
    """The blocks of a message, the `paths` of files in them, and `pictures` (and PDFs) with their bytes."""

    paths: tuple[str, ...] = ()
    blocks: tuple[str, ...] = ()
    pictures: tuple[tuple[str, bytes], ...] = ()


# Fetches pages by their addresses, in this order; failures are described in their texts.
FetchPages = Callable[[Sequence[str]], Awaitable[Sequence[ShownPage]]]


async def name_pages(urls: Sequence[str]) -> Sequence[ShownPage]:
    """Name pages without fetching them, where nobody can be asked: the model can fetch them."""
    note = "mentioned; fetch it with web_fetch"
    return [ShownPage(text=f'<web_page url="{escape_attribute(url)}" note="{note}"/>', summary="") for url in urls]


# Reads resources by the keys of their items, in this order; failures are described in their texts.
ReadResources = Callable[[Sequence[str]], Awaitable[Sequence[ShownPage]]]


async def name_resources(keys: Sequence[str]) -> Sequence[ShownPage]:
    """Name resources without reading them: they are read for prompts, not for messages to the running turn."""
    return [build_resource_note(key, "mentioned; not read, because the turn was running") for key in keys]


def build_resource_note(key: str, note: str) -> ShownPage:
    """Build the placeholder of a resource that was not read."""
    return ShownPage(text=f"{open_resource_tag(key, note)[:-1]}/>", summary="")


def open_resource_tag(key: str, note: str) -> str:
    """Return the opening tag of a resource, by the key of its item."""
    server, _, uri = map(escape_attribute, key.removeprefix(RESOURCE).partition(":"))
    return f'<mcp_resource server="{server}" uri="{uri}" note="{escape_attribute(note)}">'


class BlockWriter(Struct, eq=False):
    """Writes the blocks of one message. `history`: the texts of the user's earlier messages."""

    sources: ContextSources
    history: Sequence[str] = ()
    fetch_pages: FetchPages = name_pages
    read_resources: ReadResources = name_resources
    _room: int = MAX_TOTAL
    _discovered_room: int = MAX_DISCOVERED_TOTAL

    async def write(self, items: Sequence[ContextItem]) -> ContextBlocks:
        """Return the blocks of these items, in order."""
        paths: dict[str, None] = {}
        blocks: dict[str, None] = {}
        pictures: dict[str, bytes] = {}
        pages = await self._fetch_foreign(items)
        for item in items:
            if item.kind == "rule":  # Its text is sent with the other rules.
                continue
            if (page := pages.get(item.key)) is not None:
                blocks.setdefault(page.text)
                if page.picture is not None:
                    pictures[item.label] = page.picture.data
                continue
            if item.path:
                paths.setdefault(item.path)
            if (
                item.kind == "file"
                and not item.places
                and not item.start
                and is_picture(self.sources.reader, item.path)
            ):
                if len(pictures) < MAX_PICTURES:  # One byte more than the limit shows that a picture is too large.
                    pictures[item.path] = self.sources.reader.read_bytes(item.path, MAX_INPUT_BYTES + 1)
                continue
            is_whole = any(f'<file path="{escape_attribute(item.path)}">' in block for block in blocks)
            blocks.setdefault(await self._render(item, is_whole=is_whole))
        return ContextBlocks(paths=tuple(paths), blocks=tuple(blocks), pictures=tuple(pictures.items()))

    async def _fetch_foreign(self, items: Sequence[ContextItem]) -> dict[str, ShownPage]:
        """Fetch the pages and resources among the items, by their keys."""
        pages = [item.key for item in items if item.kind == "page"]
        resources = [item.key for item in items if item.kind == "resource"]
        urls = [key.removeprefix(PAGE) for key in pages]
        pages_by_key = dict(zip(pages, await self.fetch_pages(urls), strict=True)) if pages else {}
        return pages_by_key | (
            dict(zip(resources, await self.read_resources(resources), strict=True)) if resources else {}
        )

    async def _render(self, item: ContextItem, *, is_whole: bool) -> str:
        if item.places:
            return self._render_places(item)
        match item.kind:
            case "folder":
                return self._fit_block(item, "", _list_folder(self.sources, item.path))
            case "file" | "symbol":
                return self._render_lines(item, is_whole=is_whole) if item.start else self._render_file(item)
            case _:
                return self._fit_block(item, "", await self.sources.session.render(item))

    def _render_places(self, item: ContextItem) -> str:
        lines = list(item.places[:MAX_LISTED])
        if len(item.places) > MAX_LISTED:
            lines.append(f"… {len(item.places) - MAX_LISTED} more")
        name = item.key.partition(":")[2]
        text = escape_tags("\n".join(lines))
        return f'<file name="{escape_attribute(name)}" note="several matches; none is shown">\n{text}\n</file>'

    def _render_file(self, item: ContextItem) -> str:
        is_long = item.origin == "found" and is_outlined(self.sources, item.path)
        if is_long and (outline := self._outline(item.path)):
            return self._fit_block(item, ' note="outline only; read it with read_file"', outline)
        opening = f'<file path="{escape_attribute(item.path)}"'
        if text := self._render_notebook(item.path):
            return self._fit_block(item, "", text)
        limit = min(MAX_FILE, max(self._room, 0))
        try:
            data = self.sources.reader.read_bytes(item.path, limit + 1)
        except PathRefused as refused:
            return f'{opening} note="{escape_attribute(refused.message)}"/>'
        if b"\0" in data[:8192]:
            return f'{opening} note="binary, not shown"/>'
        if len(data) > limit:
            note = f"only the first {limit:,} bytes; read the rest with read_file"
            return self._fit_block(item, f' note="{note}"', cut_lines(data, limit).decode("utf-8", "replace"))
        block = self._fit_block(item, "", data.decode("utf-8", "replace"))
        self.sources.reader.mark_read(item.path)
        return block

    def _render_notebook(self, path: str) -> str:
        """Return the cells of a notebook as text, "" for other files."""
        if not is_notebook_path(path):
            return ""
        with suppress(PathRefused):
            return find_notebook_text(path, self.sources.reader.read_bytes(path, LARGEST + 1)) or ""
        return ""

    def _outline(self, path: str) -> str:
        symbols = self.sources.list_symbols(path)
        lines = [f"{symbol.first + 1}-{symbol.last + 1} {symbol.qualified}" for symbol in symbols[:MAX_OUTLINE]]
        return "\n".join(lines + ([f"… {len(symbols) - MAX_OUTLINE} more"] if len(symbols) > MAX_OUTLINE else []))

    def _render_lines(self, item: ContextItem, *, is_whole: bool) -> str:
        lines = self.sources.read_lines(item.path, MAX_LINED) or []
        text = "".join(lines[item.start - 1 : item.end])
        attributes = f' lines="{item.start}-{item.end}"'
        if item.kind == "symbol":
            attributes += f' symbol="{escape_attribute(item.label.partition(" · ")[0])}"'
        if is_whole:
            return f'<file path="{escape_attribute(item.path)}"{attributes} note="shown above"/>'
        return self._fit_block(item, attributes, text.rstrip("\n"))

    def _fit_block(self, item: ContextItem, attributes: str, text: str) -> str:
        """Return a block with as much of the text as fits."""
        is_discovered = item.origin == "found"
        room = min(MAX_DISCOVERED, self._discovered_room) if is_discovered else min(MAX_FILE, self._room)
        body = escape_tags(text)
        opening = f"<{_name_tag(item)}{attributes}"
        if self._is_shown(item, body):
            return f'{opening} note="{SHOWN}"/>'
        data = body.encode("utf-8", "replace")
        if len(data) > max(room, 0):
            body = cut_lines(data, room).decode("utf-8", "replace")
            opening += "" if " note=" in attributes else f' note="only the beginning; {len(data):,} bytes in all"'
        size = len(body.encode("utf-8", "replace"))
        if is_discovered:
            self._discovered_room -= size
        else:
            self._room -= size
        return f"{opening}>\n{body}\n</file>"

    def _is_shown(self, item: ContextItem, body: str) -> bool:
        if not item.path or len(body) < 20:
            return False
        opening = f'<file path="{escape_attribute(item.path)}"'
        return any(body in block for text in self.history for block in _iterate_blocks(text, opening))


def _name_tag(item: ContextItem) -> str:
    if item.kind in ("file", "symbol"):
        return f'file path="{escape_attribute(item.path)}"'
    if item.kind == "folder":
        return f'file path="{escape_attribute(item.path)}/"'
    return f'file name="@{escape_attribute(item.key)}" note="{escape_attribute(item.label)}"'


def _iterate_blocks(text: str, opening: str) -> Iterator[str]:
    begin = text.find(opening)
    while begin >= 0:
        end = text.find("</file>", begin)
        yield text[begin : end if end >= 0 else len(text)]
        begin = text.find(opening, begin + 1)


def is_picture(reader: Reader, path: str) -> bool:
    """True if a file is a picture or a PDF."""
    try:
        return bool(detect_media_type(reader.read_bytes(path, SNIFF_BYTES)))
    except PathRefused:
        return False


def _list_folder(sources: ContextSources, path: str) -> str:
    try:
        entries = sources.reader.list_dir(path)
    except PathRefused as refused:
        return refused.message
    names = [f"{entry.name}/" if entry.kind == "directory" else entry.name for entry in entries if not entry.ignored]
    return "\n".join(names[:200] + ([f"… {len(names) - 200} more"] if len(names) > 200 else []))
