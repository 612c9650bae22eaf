"""The encoding of a text that is no UTF-8: as the text declares it, or as its letters tell with a margin.

An encoding is believed only if every byte comes back from what it makes of them. Two that read a text alike are one
until something is to be written: then both have to write it alike, too.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from typing import Final

from msgspec import Struct

from core.text.encodings.letters import COMMON_CHARACTERS, COMMON_PAIRS
from core.text.well_formed import is_utf8

# By how much they read: the first of two that read the same is the one that is named.
_CODECS: Final = {
    "gbk": ("zh_Hans",),
    "gb18030": ("zh_Hans",),
    "big5": ("zh_Hant",),
    "cp950": ("zh_Hant",),
    "shift_jis": ("ja",),
    "cp932": ("ja",),
    "euc_jp": ("ja",),
    "euc_kr": ("ko",),
    "cp949": ("ko",),
    "latin-1": ("fr", "de", "es", "it", "pt", "sv", "da", "nb", "fi", "is"),
    "cp1252": ("fr", "de", "es", "it", "pt", "sv", "da", "nb", "fi", "is"),
    "cp1250": ("pl", "cs", "sk", "hu", "ro", "hr"),
    "iso8859-2": ("pl", "cs", "sk", "hu", "ro", "hr"),
    "cp1251": ("ru", "uk", "bg"),
    "koi8-r": ("ru",),
    "koi8-u": ("uk",),
    "iso8859-5": ("ru", "bg"),
    "cp866": ("ru", "bg"),
    "cp1253": ("el",),
    "iso8859-7": ("el",),
    "cp1254": ("tr",),
    "cp1255": ("he",),
    "iso8859-8": ("he",),
    "cp1256": ("ar",),
    "iso8859-6": ("ar",),
    "cp1257": ("lt", "lv", "et"),
}
_NAMES: Final = {
    "gbk": "GBK",
    "big5": "Big5",
    "shift_jis": "Shift_JIS",
    "euc_jp": "EUC-JP",
    "euc_kr": "EUC-KR",
    "latin-1": "Latin-1",
    "iso8859-1": "Latin-1",
}
_SAMPLE: Final = 32_768  # bytes of lines beyond ASCII that are read in every encoding
_LARGEST: Final = 4_000_000  # bytes of a text whose encoding is looked for
_FEWEST: Final = {"latin-1": 2, "cp1252": 2, "cp1250": 4, "iso8859-2": 4, "cp1254": 4}  # pairs of letters
_FEWEST_OTHERWISE: Final = 6
_FEWEST_CHARACTERS: Final = 2
_LEAST: Final = 0.7  # of them that are common
_MARGIN: Final = 0.3
_DECLARED: Final = re.compile(
    rb"""coding[:=]\s*["']?([-\w.]+)|<\?xml[^>]*\bencoding\s*=\s*["']([-\w.]+)|<meta[^>]*\bcharset\s*=\s*["']?([-\w.]+)"""
    rb"""|@charset\s+["']([-\w.]+)|Content-Type:[^\n]*\bcharset=([-\w.]+)""",
    re.IGNORECASE,
)
# Quotes, dashes and the ellipsis of the Windows code pages, where they stand as a writer sets them, and those of them
# that are no letter of another encoding.
_TYPOGRAPHY: Final = re.compile(
    rb"(?<![^\W_])[\x91\x93](?=\S)|(?<=[!-~\x85\x92\x94])[\x92\x94](?![^\W_])|(?<=[^\W_])\x92(?=[^\W_])|\x85(?![^\W_])"
    rb"|(?<=\s)[\x96\x97](?=\s)|(?<=[\w\x92\x94.])\x97(?=[\w\x91\x93])|(?<=\d)\x96(?=\d)"
)
_SURE_TYPOGRAPHY: Final = re.compile(
    rb"[A-Za-z]\x92(?:s|t|d|m|re|ve|ll)\b|(?<![^\W_])\x93\w[^\x80-\xff\n]*[!-~]\x94(?![^\W_])|\s[\x96\x97]\s"
)
_WINDOWS: Final = ("cp1252", "cp1250", "cp1251", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "cp1258")
_DECLARABLE: Final = re.compile(r"(iso8859|cp|koi8|gb|big5|euc|shift|mac|johab|tis|hp)")
_ASCII: Final = "\t\n\r" + "".join(map(chr, range(0x20, 0x7F)))
_DECLARING: Final = 1024  # bytes at the beginning that may declare an encoding
_BYTE: Final = re.compile("[\udc80-\udcff]")
_KANA: Final = re.compile("[ぁ-んァ-ヶ]")
_PUNCTUATION: Final = frozenset("，。、：；（）「」『』！？～…—《》【】・ー　“”‘’")
_QUOTES: Final = frozenset("«»„“”‘’–—…€£§°·•¿¡©®±×÷\xa0")
_NO_TEXT: Final = re.compile("[\x80-\x9f\ue000-\uf8ff\ufffd]")  # controls, and what stands for nothing


class TextEncoding(Struct, frozen=True):
    """`codec`: Python's name. `twins`: others that read the text just so, of which nothing tells it."""

    codec: str
    twins: tuple[str, ...] = ()


def name_encoding(codec: str) -> str:
    """Return the name of an encoding as people write it."""
    return _NAMES.get(codec, codec)


def find_encoding(data: bytes, declared_encoding: str = "") -> TextEncoding | None:
    """Return the encoding of a text that is no UTF-8; None: it is UTF-8, or it can't be told. `declared_encoding`: what
    the project says of the file."""
    if data.isascii() or len(data) > _LARGEST:
        return None
    return _find_legacy_encoding(data, declared_encoding) if _is_no_unicode(data) else None


def is_in_unknown_encoding(data: bytes) -> bool:
    """Return True for a text that is no UTF-8 and in no encoding that can be told."""
    return not data.isascii() and _is_no_unicode(data) and find_encoding(data) is None


def _is_no_unicode(data: bytes) -> bool:
    """Return True if more of a text beyond ASCII is no UTF-8 than is: what has less is UTF-8 with a flaw."""
    if data.startswith(codecs.BOM_UTF8) or is_utf8(data):
        return False
    text = data.decode("utf-8", "surrogateescape")
    strange = len(_BYTE.findall(text))
    return strange * 2 > sum(not sign.isascii() for sign in text)


@lru_cache(maxsize=8)
def _find_legacy_encoding(data: bytes, declared_encoding: str) -> TextEncoding | None:
    match = _DECLARED.search(data[:_DECLARING])
    for name in (*(part.decode() for part in (match.groups() if match else ()) if part), declared_encoding):
        if name and (codec := _find_codec(name)) and is_read_whole(data, codec):
            return TextEncoding(codec)
    sample = b"\n".join(_take_sample(data))
    scores = sorted(((_score(sample, codec), codec) for codec in _CODECS), key=lambda pair: -pair[0])
    scores = [(score, codec) for score, codec in scores if score > 0 and is_read_whole(data, codec)]
    if not scores or scores[0][0] < _LEAST:
        return TextEncoding(_WINDOWS[0], _WINDOWS[1:]) if _is_typography(data) else None
    if not _is_enough(sample.decode(scores[0][1], "replace"), scores[0][1]):
        return None
    text = data.decode(scores[0][1])
    rivals = [score for score, codec in scores if data.decode(codec) != text]
    if rivals and max(rivals) > scores[0][0] - _MARGIN:
        return None
    near_codecs = {codec for score, codec in scores if score > scores[0][0] - _MARGIN}
    equivalent_codecs = [codec for codec in _CODECS if codec in near_codecs and data.decode(codec) == text]
    return TextEncoding(equivalent_codecs[0], tuple(equivalent_codecs[1:]))


def _is_typography(data: bytes) -> bool:
    """Return True if a text has nothing beyond ASCII but quotes, dashes and ellipses of the Windows code pages."""
    rest = _TYPOGRAPHY.sub(b"", data)
    return rest.isascii() and _SURE_TYPOGRAPHY.search(data) is not None


def _find_codec(name: str) -> str:
    """Return Python's name of an encoding in which ASCII is ASCII; "" if it is none."""
    try:
        codec = codecs.lookup(name).name
        return codec if _DECLARABLE.match(codec) and _ASCII.encode().decode(codec) == _ASCII else ""
    except (LookupError, UnicodeError):
        return ""


def is_read_whole(data: bytes, codec: str) -> bool:
    """Return True if an encoding reads all of a text, as text, and gives all of its bytes back."""
    try:
        text = data.decode(codec)
        return text.encode(codec) == data and _NO_TEXT.search(text) is None
    except UnicodeError:
        return False


def _take_sample(data: bytes) -> Iterator[bytes]:
    remaining = _SAMPLE
    for line in data.split(b"\n"):
        if remaining > 0 and not line.isascii():
            yield line[:_SAMPLE]
            remaining -= len(line)


def _is_enough(text: str, codec: str) -> bool:
    """Return True if a text has as many letters as tell something in this encoding."""
    if _CODECS[codec][0] in COMMON_CHARACTERS:
        return sum(not sign.isascii() for sign in text) >= _FEWEST_CHARACTERS
    return len(_list_pairs(text)) >= _FEWEST.get(codec, _FEWEST_OTHERWISE)


def _score(sample: bytes, codec: str) -> float:
    """Return the share of common letters, from 0 to 1, in the language of an encoding that fits best."""
    text = sample.decode(codec, "replace")
    languages = _CODECS[codec]
    if languages[0] in COMMON_CHARACTERS:
        signs = [sign for sign in text if not sign.isascii()]
        common = _load_characters(languages[0])
        if languages == ("ja",) and _KANA.search(text) is None:
            return 0.0
        return sum(sign in common for sign in signs) / max(len(signs), 1)
    pairs = _list_pairs(text)
    return max(sum(_is_common(pair, language) for pair in pairs) for language in languages) / max(len(pairs), 1)


def _is_common(pair: str, language: str) -> bool:
    """Return True for a pair that words of a language have. A capital stands at their beginning only."""
    return not (pair[1].isupper() and pair[0] != "_") and pair.lower() in _load_pairs(language)


def _list_pairs(text: str) -> Sequence[str]:
    """List the pairs of letters with one beyond ASCII; what is no letter is the edge of a word. A sign that no text
    has amid its letters is a pair, too."""
    padded_text = "".join(
        sign if sign.isalpha() or (not sign.isascii() and sign not in _QUOTES) else "_" for sign in f" {text} "
    )
    return [
        padded_text[index : index + 2]
        for index in range(len(padded_text) - 1)
        if not padded_text[index : index + 2].isascii()
    ]


@cache
def _load_characters(language: str) -> frozenset[str]:
    kana = map(chr, (*range(0x3041, 0x3097), *range(0x30A1, 0x30FB))) if language == "ja" else ()
    return frozenset((*COMMON_CHARACTERS[language], *kana)) | _PUNCTUATION


@cache
def _load_pairs(language: str) -> frozenset[str]:
    groups = COMMON_PAIRS[language].split(" ")
    return frozenset(group[0] + second for group in groups for second in group[1:])
