"""Grammars of known languages, and the only module that uses tree-sitter: loaded at first use, one thread at a time.

Grammars are separate distributions; a language whose grammar is not installed is unknown.
"""

from __future__ import annotations

import warnings
from functools import cache
from importlib import import_module
from pathlib import PurePath
from threading import Lock
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

_GRAMMARS: Final = {
    "tree_sitter_python": ("language", "py pyi"),
    "tree_sitter_javascript": ("language", "js jsx mjs cjs"),
    "tree_sitter_typescript": ("language_typescript", "ts mts cts"),
    "tree_sitter_typescript tsx": ("language_tsx", "tsx"),
    "tree_sitter_go": ("language", "go"),
    "tree_sitter_rust": ("language", "rs"),
    "tree_sitter_java": ("language", "java"),
    "tree_sitter_json": ("language", "json"),
    "tree_sitter_html": ("language", "html htm"),
    "tree_sitter_css": ("language", "css"),
    "tree_sitter_c": ("language", "c"),
    "tree_sitter_cpp": ("language", "cpp cc cxx hpp hh hxx"),
    "tree_sitter_c_sharp": ("language", "cs"),
    "tree_sitter_bash": ("language", "sh bash"),
    "tree_sitter_ruby": ("language", "rb"),
    "tree_sitter_php": ("language_php", "php"),
}
_BY_ENDING: Final = {ending: name for name, (_, endings) in _GRAMMARS.items() for ending in endings.split()}
_LARGEST: Final = 4_000_000
_LONGEST: Final = 5_000_000  # microseconds of a parse: a grammar may need minutes for text in another language
_PARSING: Final = Lock()  # a parser has state between calls


def parse_syntax(path: str, text: str) -> Node | None:
    """Return the root of a file's tree; None if the language is unknown, or if the text is too long or takes too
    long."""
    parser = _load_parser(PurePath(path).suffix.lower().removeprefix("."))
    if parser is None or len(text) > _LARGEST:
        return None
    with _PARSING:
        try:
            return parser.parse(text.encode("utf-8", "surrogatepass")).root_node
        except ValueError:  # timeout
            parser.reset()
            return None


def is_known_language(path: str) -> bool:
    """True if the file name implies a language that has a grammar, installed or not."""
    return PurePath(path).suffix.lower().removeprefix(".") in _BY_ENDING


@cache
def _load_parser(ending: str) -> Parser | None:
    name = _BY_ENDING.get(ending)
    if name is None:
        return None
    try:
        from tree_sitter import Language, Parser

        grammar = import_module(name.split()[0])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the recommended replacement of the timeout crashes the process
            return Parser(Language(getattr(grammar, _GRAMMARS[name][0])()), timeout_micros=_LONGEST)
    except (ImportError, AttributeError, ValueError):
        return None
