"""Comments in the language of a file, so that a probe region can be marked in it."""

from __future__ import annotations

from typing import Final

from core.languages import detect_language

_WORDS: Final = {
    ("#", ""): "python bash ruby perl r julia elixir nim nix yaml toml make cmake docker powershell graphql terraform",
    (
        "//",
        "",
    ): "c cpp csharp cuda d dart fsharp glsl go groovy java javascript jsx kotlin less objective-c php protobuf "
    "rust sass scala scss swift tsx typescript zig",
    ("--", ""): "elm haskell lua sql",
    (";", ""): "clojure ini",
    ("%", ""): "erlang matlab tex",
    ("!", ""): "fortran",
    ('"', ""): "vim",
    ("REM", ""): "batch",
    ("/*", "*/"): "css",
    ("(*", "*)"): "ocaml",
    ("<!--", "-->"): "html xml vue markdown",
}
_SYNTAX: Final = {language: syntax for syntax, languages in _WORDS.items() for language in languages.split()}


def format_comment(path: str, text: str) -> str | None:
    """Format `text` as a comment of one line; None where the language of the file is not known, or has no comments."""
    syntax = _SYNTAX.get(detect_language(path))
    if syntax is None:
        return None
    opening, closing = syntax
    return f"{opening} {text} {closing}".rstrip()
