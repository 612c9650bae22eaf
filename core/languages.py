"""The language of a file by its name, as a Pygments alias; "" if unknown."""

from __future__ import annotations

_BY_NAME = {
    "dockerfile": "docker",
    "containerfile": "docker",
    "makefile": "make",
    "gnumakefile": "make",
    "cmakelists.txt": "cmake",
    "gemfile": "ruby",
    "rakefile": "ruby",
    "jenkinsfile": "groovy",
    "pkgbuild": "bash",
    ".bashrc": "bash",
    ".profile": "bash",
    ".zshrc": "bash",
    ".gitconfig": "ini",
    ".editorconfig": "ini",
}
_BY_ENDING = {
    "bash": "bash zsh sh ksh bats",
    "batch": "bat cmd",
    "c": "c h",
    "clojure": "clj cljs cljc edn",
    "cmake": "cmake",
    "cpp": "cpp cc cxx c++ hpp hh hxx ino",
    "csharp": "cs",
    "css": "css",
    "cuda": "cu cuh",
    "d": "d",
    "dart": "dart",
    "diff": "diff patch",
    "docker": "dockerfile",
    "elixir": "ex exs",
    "elm": "elm",
    "erlang": "erl hrl",
    "fortran": "f90 f95 f03",
    "fsharp": "fs fsi fsx",
    "glsl": "glsl vert frag",
    "go": "go",
    "graphql": "graphql gql",
    "groovy": "groovy gradle",
    "haskell": "hs",
    "html": "html htm xhtml svelte",
    "ini": "ini cfg conf properties",
    "java": "java",
    "javascript": "js mjs cjs",
    "jsx": "jsx",
    "json": "json jsonc json5 webmanifest ipynb",
    "julia": "jl",
    "kotlin": "kt kts",
    "less": "less",
    "lua": "lua",
    "make": "mk mak",
    "markdown": "md markdown mdc mdx",
    "matlab": "m",
    "nim": "nim",
    "nix": "nix",
    "objective-c": "mm",
    "ocaml": "ml mli",
    "perl": "pl pm",
    "php": "php",
    "powershell": "ps1 psm1",
    "protobuf": "proto",
    "python": "py pyi pyw pyx",
    "r": "r",
    "restructuredtext": "rst",
    "ruby": "rb rake gemspec",
    "rust": "rs",
    "sass": "sass",
    "scala": "scala sbt",
    "scss": "scss",
    "sql": "sql",
    "swift": "swift",
    "terraform": "tf tfvars hcl",
    "tex": "tex sty",
    "toml": "toml",
    "tsx": "tsx",
    "typescript": "ts mts cts",
    "vim": "vim",
    "vue": "vue",
    "xml": "xml xsd xsl svg plist",
    "yaml": "yaml yml",
    "zig": "zig",
}
_ENDINGS = {ending: language for language, endings in _BY_ENDING.items() for ending in endings.split()}


def detect_language(path: str) -> str:
    """Return the language of a file by its name, as a Pygments alias: `src/a.py` -> "python"; "" if unknown."""
    name = path.rpartition("/")[2].lower()
    if language := _BY_NAME.get(name):
        return language
    _, dot, ending = name.rpartition(".")
    return _ENDINGS.get(ending, "") if dot else ""


def find_ending(language: str) -> str:
    """Return the usual suffix of a language's files: "python" -> "py"; "" if unknown."""
    return _BY_ENDING.get(language, "").partition(" ")[0]
