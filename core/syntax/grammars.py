"""Grammars of known languages: the one module that opens tree-sitter, at first use; one thread parses at a time.

Grammars are separate distributions; one that is not installed is a language that is not known.
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
_LONGEST: Final = 5_000_000  # microseconds of a parse: a grammar may take minutes over text that was never its language
_PARSING: Final = Lock()  # a parser keeps what it has begun


def parse_syntax(path: str, text: str) -> Node | None:
    """Return the root of a file's tree; None: the language is not known, the text is too long, or takes too long."""
    parser = _load_parser(PurePath(path).suffix.lower().removeprefix("."))
    if parser is None or len(text) > _LARGEST:
        return None
    with _PARSING:
        try:
            return parser.parse(text.encode("utf-8", "surrogatepass")).root_node
        except ValueError:  # its time is over
            parser.reset()
            return None


def is_known_language(path: str) -> bool:
    """True if the name of a file tells a language that has a grammar, installed or not."""
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
            warnings.simplefilter("ignore")  # what is to be used instead of a timeout ends the process with a fault
            return Parser(Language(getattr(grammar, _GRAMMARS[name][0])()), timeout_micros=_LONGEST)
    except (ImportError, AttributeError, ValueError):
        return None
