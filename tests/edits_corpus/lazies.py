"""The lazy edits of every language, together: (name, path, original, edit, expected; None where it must be refused)."""

from __future__ import annotations

from tests.edits_corpus import (
    lazy_braces,
    lazy_compiled,
    lazy_documents,
    lazy_functions,
    lazy_further,
    lazy_last,
    lazy_loose,
    lazy_others,
    lazy_python,
    lazy_scripts,
    lazy_typescript,
)

CASES = [
    *lazy_python.CASES,
    *lazy_functions.CASES,
    *lazy_typescript.CASES,
    *lazy_scripts.CASES,
    *lazy_braces.CASES,
    *lazy_compiled.CASES,
    *lazy_documents.CASES,
    *lazy_further.CASES,
    *lazy_last.CASES,
    *lazy_loose.CASES,
    *lazy_others.CASES,
]
