"""Pages of the web: the text of an answer as Markdown, and the parts of it that a model is shown.

The kind of a page follows from its bytes rather than from its header. Characters that are invisible (controls, bidi
overrides, Unicode tags) are written as visible marks, and a page that only scripts would fill is distinguished from an
empty one.
"""

from __future__ import annotations

import codecs
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from core.attachments.preparation import PreparedAttachment, prepare_attachment, read_pdf_facts
from core.attachments.signature import detect_media_type
from core.errors import AttachmentRefused, WebFailed
from core.patterns import compile_lazily
from core.records import decode_json, parse_json
from core.text.display_names import expose_controls
from core.web.download import Download

READ_SECONDS: Final = 20.0
MIN_TEXT: Final = 80  # characters below which a page with scripts counts as built by them
_READER: Final = Path(__file__).with_name("page_reader.py")
_META_CHARSET: Final = compile_lazily(rb"<meta[^>]{0,200}charset\s*=\s*[\"']?([A-Za-z0-9_:-]{1,40})", re.IGNORECASE)
_HTML_TAG: Final = compile_lazily(r"<(?:!doctype html|html|head|body)\b", re.IGNORECASE)
_BOMS: Final = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
# The charsets of the Encoding Standard, by Python's names. Python's other codecs are not for pages, and some take
# quadratic time (punycode).
_CODECS: Final = frozenset(
    {
        "ascii", "big5", "big5hkscs", "cp866", "cp874", "cp949", "cp932", "cp1250", "cp1251", "cp1252", "cp1253",
        "cp1254", "cp1255", "cp1256", "cp1257", "cp1258", "euc_jp", "euc_kr", "gb18030", "gb2312", "gbk",
        "iso2022_jp", "iso8859-1", "iso8859-2", "iso8859-3", "iso8859-4", "iso8859-5", "iso8859-6", "iso8859-7",
        "iso8859-8", "iso8859-9", "iso8859-10", "iso8859-11", "iso8859-13", "iso8859-14", "iso8859-15", "iso8859-16",
        "koi8-r", "koi8-u", "mac-cyrillic", "mac-roman", "shift_jis", "tis-620", "utf-8", "utf-8-sig", "utf-16",
        "utf-16-be", "utf-16-le",
    }
)  # fmt: skip
# Supersets that browsers decode instead, because pages use their characters.
_WIDER: Final = {
    "ascii": "cp1252", "iso8859-1": "cp1252", "iso8859-9": "cp1254", "iso8859-11": "cp874", "tis-620": "cp874",
    "gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932", "euc_kr": "cp949",
}  # fmt: skip
_HTML_TYPES: Final = frozenset({"text/html", "application/xhtml+xml"})
PREVIEW_CHARS: Final = 6_000  # of a page's beginning
PART_CHARS: Final = 16_000  # of a requested part
MAX_HEADINGS: Final = 60
MAX_MATCHES: Final = 12
_AROUND: Final = 240  # characters of context around a match
_HEADING: Final = compile_lazily(r"^```[\s\S]*?^```|^(#{1,4}) +(\S.{0,110})", re.MULTILINE)  # or a block of code


class Page(Struct, frozen=True, kw_only=True):
    """A page to show. `address`: the final one; `kind`: html, markdown, json, text, pdf or picture; `source`: the text
    before its conversion; `refresh`: the target of its own refresh, "" = none."""

    address: str
    kind: str
    text: str = ""
    title: str = ""
    source: str = ""
    refresh: str = ""
    note: str = ""
    picture: PreparedAttachment | None = None
    is_built_by_scripts: bool = False

    def require_text(self) -> str:
        """Return the text. Raises `WebFailed` for a page that has next to none without its scripts."""
        if self.is_built_by_scripts:
            raise WebFailed(
                "The page is built by scripts: without them it has no text.",
                hint="Look for another source (an API, a raw file), open it in a browser, or read its source (raw).",
                code="needs_browser",
            )
        return self.text


class _HtmlFacts(Struct, frozen=True):
    title: str = ""
    text: str = ""
    refresh: str = ""
    scripts: int = 0


def build_page(download: Download) -> Page:
    """Build the page of a response. Slow: call it in a thread. Raises `WebFailed`."""
    address, media_type = str(download.address), detect_media_type(download.data[:64])
    if media_type == "application/pdf":
        facts = read_pdf_facts(download.data, text=True)
        if not facts.text.strip():
            reason = "it is encrypted" if facts.encrypted else facts.damaged or "it has no text"
            raise WebFailed(f"This PDF can't be read: {reason.rstrip('.')}.", hint="Find a page.", code="unsupported")
        return Page(address=address, kind="pdf", text=expose_controls(facts.text), note=f"{facts.pages} pages")
    if media_type:
        return _build_picture(download)
    if b"\0" in download.data[:4096] and not download.data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        type_name = download.media_type or "unknown"
        raise WebFailed(
            f"This is a binary file (type {type_name}), not a page.", hint="Find a page.", code="unsupported"
        )
    text = decode_text(download)
    note = "the page is longer; only the beginning was read" if download.is_cut else ""
    begin = text[:4096].lstrip()
    if (begin.startswith("<") and _HTML_TAG.search(begin)) or (download.media_type in _HTML_TYPES and "<" in text):
        return _build_html(address, text, note)
    kind = "markdown" if download.media_type in {"text/markdown", "text/x-markdown"} else "text"
    if download.media_type.endswith(("/json", "+json")):
        kind, text = "json", _format_json(text)
    return Page(address=address, kind=kind, text=expose_controls(text), source=expose_controls(text), note=note)


def decode_text(download: Download) -> str:
    """Decode a text: by its byte order mark, its header, its meta element, and at last as UTF-8 or Latin-1."""
    data = download.data
    bom_encoding = next((name for mark, name in _BOMS if data.startswith(mark)), "")
    meta = _META_CHARSET.search(data[:4096])
    for name in (bom_encoding, download.charset, meta[1].decode() if meta else "", "utf-8"):
        try:
            if name:
                return data.decode(
                    _find_codec(name), "strict" if name == "utf-8" and not download.is_cut else "replace"
                )
        except (LookupError, UnicodeError):
            continue
    return data.decode("cp1252", "replace")


def _find_codec(name: str) -> str:
    """Return the codec of a charset as in browsers. Raises LookupError for any other name."""
    codec = codecs.lookup(name)
    if codec.name not in _CODECS:
        raise LookupError(name)
    return _WIDER.get(codec.name, codec.name)


def _build_html(address: str, html: str, note: str) -> Page:
    facts = _read_html(address, html)
    if facts is None:
        source = expose_controls(html)
        return Page(
            address=address, kind="html", text=source, source=source, note="it can't be converted; this is its source"
        )
    text = expose_controls(facts.text)
    return Page(
        address=address,
        kind="html",
        text=text,
        title=expose_controls(facts.title),
        source=expose_controls(html),
        refresh=facts.refresh,
        note=note,
        is_built_by_scripts=len(text) < MIN_TEXT and facts.scripts > 0,
    )


def _read_html(address: str, html: str) -> _HtmlFacts | None:
    """Convert a page in its own process; None: it exceeded the limits of time and memory."""
    command = [sys.executable, "-I", str(_READER)]
    payload = f"{address}\n{html}".encode("utf-8", "replace")
    try:
        result = subprocess.run(command, input=payload, capture_output=True, timeout=READ_SECONDS, check=False)
        return decode_json(result.stdout, _HtmlFacts)
    except (OSError, subprocess.SubprocessError, msgspec.MsgspecError):
        return None


def _format_json(text: str) -> str:
    try:
        return json.dumps(parse_json(text), indent=1, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text


def _build_picture(download: Download) -> Page:
    name = download.address.path.partition("?")[0].rpartition("/")[2][:80]
    try:
        picture = prepare_attachment(download.data, name)
    except AttachmentRefused as problem:
        raise WebFailed(problem.message, hint=problem.hint, code="unsupported") from None
    return Page(address=str(download.address), kind="picture", picture=picture)


def show_beginning(text: str) -> str:
    """Return a short text as a whole; of a long one its beginning, and the offsets of its sections."""
    if len(text) <= PART_CHARS:
        return text
    end = _find_end(text, PREVIEW_CHARS)
    headings = list_headings(text)
    outline = "\n".join(f"{offset:>8,}  {title}" for offset, title in headings)
    sections = f"\nIts sections, by offset:\n{outline}" if headings else ""
    return (
        f"{text[:end].rstrip()}\n\n[{end} of {len(text):,} characters. Continue with offset={end}, or find.]{sections}"
    )


def show_part(text: str, offset: int) -> str:
    """Return a part of a text from `offset` on, with a line about the rest."""
    if offset >= len(text):
        return f"[The page has {len(text):,} characters: there is nothing at {offset:,}.]"
    end = _find_end(text, offset + PART_CHARS)
    rest = f"\n\n[Up to {end} of {len(text):,} characters. Continue with offset={end}.]" if end < len(text) else ""
    return text[offset:end] + rest


def show_matches(text: str, words: str) -> str:
    """Return the occurrences of words with context, ignoring case."""
    places = [match.start() for match in re.finditer(re.escape(words), text, re.IGNORECASE)]
    if not places:
        return f"[{words!r} is not in this page of {len(text):,} characters.]"
    parts, end = list[str](), 0
    for offset in places:
        if offset < end:
            continue
        if len(parts) == MAX_MATCHES:
            break
        start, end = max(end, offset - _AROUND), min(len(text), offset + len(words) + _AROUND)
        parts.append(f"[at {offset:,}]\n{text[start:end].strip()}")
    return "\n\n".join((f"[{len(places)} times; use offset to see more around one.]", *parts))


def list_headings(text: str) -> list[tuple[int, str]]:
    """List the headings of a Markdown text by offset, without the deepest levels if there are too many."""
    matches = [match for match in _HEADING.finditer(text) if match[1]]
    for level in (4, 3, 2, 1):
        headings = [match for match in matches if len(match[1]) <= level]
        if len(headings) <= MAX_HEADINGS:
            break
    return [(match.start(), f"{match[1]} {match[2]}") for match in headings[:MAX_HEADINGS]]


def _find_end(text: str, limit: int) -> int:
    """Find a line end shortly before `limit`."""
    if limit >= len(text):
        return len(text)
    line = text.rfind("\n", limit - 500, limit)
    return line + 1 if line > 0 else limit
