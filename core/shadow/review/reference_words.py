"""Words of a protected file that may name other files, in any notation: paths, their ends, directories, calls.

This is pure text analysis, without a tree. Words are stored with their meaning (`Mark`) under the first part of their
path, so that most of them need one lookup in a directory. A variable may stand for any directory, or for any part of a
name.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from enum import StrEnum
from itertools import product

from msgspec import Struct

from core.patterns import compile_lazily
from core.workspace.acting_content import RunnerCall, cut_blocks, find_calls

CODE = compile_lazily(
    r"\.(?:sh|bash|zsh|fish|[cm]?[jt]sx?|pyw?|rb|p[lm]|php|lua|vim|el|exs?|jl|r|groovy|psm?1|bat|cmd|rs|go|mk|gradle|kts"
    r"|nix|awk)\Z",
    re.I,
)
BINARY = compile_lazily(r"\.(?:jar|so|dylib|dll|pyd|pyc|node|wasm|exe)\Z", re.I)
SHELL = compile_lazily(r"\.(?:sh|bash|zsh|fish|ps1|bat|cmd|awk)\Z", re.I)
_MAX_WORDS = 4_000  # of one text
_MAX_GLOBS = 200
_MAX_STARS = 3  # wildcards of one name
_MAX_WORD = 2_000  # characters, including the braces in it
_WILDCARDS = {"*": "[^/\n]*", "?": "[^/\n]"}
_ANY = "\1"  # the value of a variable
_VARIABLES = compile_lazily(
    r"\$\{\{.{0,200}?\}\}|\{\{.{0,200}?\}\}|<<.{0,200}?>>|\$\{[^{}\n]*\}|\$[A-Za-z_]\w*\$?|\$[0-9@*]|%\w+%|`[^`\n]*`|\$\(\)"
)
_INNER_COMMAND = compile_lazily(r"\$\(([^()]*)\)")
_BRACES = compile_lazily(r"([^\s{},;\"'()|&]{0,200})\{([^{}\n]{0,500}[,.][^{}\n]{0,500})\}([^\s{},;\"'()|&]{0,200})")
_CLASS = compile_lazily(r"(?<=[\w/.*-])\[[^\]\s,]{1,40}\](?=[\w.*-])")
_TOKEN = compile_lazily(r"([\w.@+~*?/\1-]+)(:(?=\s|$))?", re.MULTILINE)
_WORD = compile_lazily(r"[\w.@+~${}/\\-]+")
_LEADING = compile_lazily(r"^(?:\$\w+|\$\{[^{}]*\}+|\$\{\{[^{}]*\}\}|\\)/+")
_RUNS_ALL = compile_lazily(r"run-parts|_path\b|\bpath=|\bfor\s+\w+\s+in\b|\bxargs\b")
_COMMON = compile_lazily(
    r"(?:index|main|mod|lib|__init__|__main__|app|tests?|utils?|types|server|client|cli|setup|build|run|config|conftest|"
    r"manage|base|common|core|api|models?|views|version|install|start)\.\w+\Z"
)
_PLACES = compile_lazily(
    r"(?:PATH_add|path_add|source_env(?:_if_exists)?|uses:|core\.hooksPath|_\.path)[\s\"'=:\[]+([^\s\"',\]]+)"
)
_RUN = compile_lazily(
    r"(?:^|[\s;&|({\"'])(?:source|so|sh|bash|zsh|dash|python3?|ruby|perl|php|exec|dotenv(?:_if_exists)?)"
    r"\s+(?:-\S+\s+){0,8}[\"']?([\w.@+~${}/-]+)",
    re.MULTILINE,
)
_SOURCED = compile_lazily(r"(?:^|[;&|({\"'`:]|\b(?:then|do|else)\s|-\s)[ \t]*\.\s+[\"']?([\w.@+~${}/-]+)", re.MULTILINE)
_PROGRAMS = compile_lazily(
    r"(?:^|[\s;&|({\"'/])(?:node|bun|tsx|ts-node|nodemon|deno\s+run)\s+(?:-\S+\s+){0,8}[\"']?([\w.@+~${}/-]+)",
    re.MULTILINE,
)
_MODULES = compile_lazily(r"(?:python|pypy|\bpy\b|uv\s+run|coverage\s+run)[^\n;|&]{0,80}?[\s\"',]-m[\s\"',]+([\w.]+)")
_INLINE_PYTHON = compile_lazily(r"python\S{0,20}\s+(?:-\S+\s+){0,8}?-c\s+[\\\"']*([^\n]*)")
_IMPORTS = compile_lazily(r"(?:^|[;\"'])[ \t]*import\s+([\w., \t]+)", re.MULTILINE)
_FROM = compile_lazily(r"(?:^|[;\"'])[ \t]*from\s+(\.*)([\w.]*)\s+import\s+(?:\(([^)]*)\)|([\w., \t*]+))", re.MULTILINE)
_CALLED_IMPORTS = compile_lazily(r"(?:__import__|import_module|run_module)\(\s*[\"']([\w.]+)")
_RUST = compile_lazily(r"\bmod\s+(?:r#)?(\w+)\s*;")
_INCLUDED = compile_lazily(r"(?:\binclude(?:_str|_bytes)?!\s*\(|\bpath\s*=)\s*\"([^\"\n]+)\"")
_REQUIRED = compile_lazily(r"\b(?:require_relative|load|dofile|do|require)\b[\s(]*[\"']([\w./-]+)[\"']")
_FLAKES = {"flake": ("flake.nix",), "nix": ("shell.nix", "default.nix"), "devenv": ("devenv.nix", "devenv.yaml")}
# By kind of file: the keys whose values name files of any kind, and those that name directories.
_KEYS: tuple[tuple[re.Pattern[str], tuple[str, ...], tuple[str, ...]], ...] = (
    (compile_lazily(r"taskfile[^/]*\Z"), ("includes", "taskfile", "dotenv"), ()),
    (compile_lazily(r"lefthook[^/]*\Z"), ("extends", "rc"), ("source_dir", "source_dir_local")),
    (
        compile_lazily(r"(?:^|/)\.?(?:mise|rtx)[^/]*(?:/[^/]*)?\.toml\Z"),
        ("_.file", "_.source", "file", "source"),
        ("includes",),
    ),
    (compile_lazily(r"devcontainer"), ("dockerFile", "dockerfile", "dockerComposeFile"), ()),
    (compile_lazily(r"\.vscode/|\.code-workspace\Z"), (), ("typescript.tsdk", "js/ts.tsdk.path", "eslint.nodePath")),
    (compile_lazily(r"\.pre-commit-config"), (), ("repo",)),
    (compile_lazily(r"(?:^|/)\.(?:github|gitea|forgejo|circleci)/"), (), ()),
    (compile_lazily(r"\.ya?ml\Z"), ("include", "local"), ()),
)


class Mark(StrEnum):
    """The meaning of a word: a script, a file of any kind, a file or directory, a program that Node resolves, a module
    that is run, and one that is imported."""

    SCRIPT = "script"
    FILE = "file"
    PLACE = "place"
    PROGRAM = "program"
    RUN_MODULE = "run-module"
    MODULE = "module"


ENDINGS: dict[str, tuple[str, ...]] = {
    Mark.SCRIPT: ("", ".js", ".cjs", ".mjs", ".ts", ".mts", ".py", ".sh", ".rb", ".lua", "/index.js", "/__main__.py"),
    Mark.PLACE: ("",),
    Mark.RUN_MODULE: (".py", "/__main__.py"),
    Mark.MODULE: (".py", "/__init__.py"),
}
ENDINGS[Mark.FILE] = ENDINGS[Mark.PROGRAM] = ENDINGS[Mark.SCRIPT]


class ReferenceWords(Struct, frozen=True):
    """The words of a text. `exact`: words with their marks, by the first part of their path (".." = upward).

    `names`: ends of paths by their last name, in lower case; `globs`: ends of paths with wildcards. `places`: words
    that may be directories, by their first part; `tails`: ends of these; `run_places`: directories all of whose files
    may be run. `data_globs`: whole paths of files of any kind, with wildcards; `undone`: the text without quotes, in
    lower case.
    """

    exact: dict[str, tuple[str, ...]] = {}
    names: dict[str, tuple[str, ...]] = {}
    globs: re.Pattern[str] | None = None
    places: dict[str, tuple[str, ...]] = {}
    tails: frozenset[str] = frozenset()
    run_places: frozenset[str] = frozenset()
    parts: frozenset[str] = frozenset()
    data_globs: tuple[str, ...] = ()
    calls: tuple[RunnerCall, ...] = ()
    undone: str = ""


def is_common(name: str) -> bool:
    """True if many directories have a file with this name, so that the name alone is inconclusive."""
    return _COMMON.match(name) is not None


def read_words(path: str, text: str, *, imports: bool, is_bare: bool) -> ReferenceWords:
    """Parse a text that runs something. `imports`: its Python imports count; `is_bare`: ends of paths count, too."""
    exact = list(dict.fromkeys((*_list_exact(path, text), *(_list_imports(path, text) if imports else ()))))
    files, globs = list[tuple[Mark, str]](), list[str]()
    for mark, word in _list_keyed(path.lower(), text):
        if "*" in word:
            globs.append(posixpath.normpath(word.lstrip("/")))
        else:
            files.append((mark, word))
    words = sort_words((*exact, *files))
    if not is_bare:
        return ReferenceWords(exact=words, data_globs=tuple(globs), calls=tuple(find_calls(text)))
    return _add_tokens(text, words, tuple(globs))


def sort_words(words: Iterable[tuple[Mark, str]]) -> dict[str, tuple[str, ...]]:
    """Sort words that are paths by their first part, as in `ReferenceWords.exact`; others are omitted."""
    sorted_words = dict[str, dict[str, None]]()
    for mark, raw in list(words)[:_MAX_WORDS]:
        word = _LEADING.sub("", raw).strip("\\")
        if "$" in word or word.startswith("~") or not (word.strip("./@") or mark == Mark.PROGRAM):
            continue
        word = posixpath.normpath(word.lstrip("/") or ".")
        first, slash, _ = word.partition("/")
        is_path = mark != Mark.SCRIPT or "/" in raw
        endings = ENDINGS[mark] if not slash and is_path else ("",)
        keys = (
            {first, *(first + end for end in endings if not end.startswith("/"))}
            if first not in (".", "..")
            else {".."}
        )
        for key in keys:
            sorted_words.setdefault(key, {})[f"{mark} {word if slash or not is_path else f'./{word}'}"] = None
    return {key: tuple(values) for key, values in sorted_words.items()}


def _list_exact(path: str, text: str) -> Iterator[tuple[Mark, str]]:
    yield from ((Mark.PLACE, word) for word in _PLACES.findall(text))
    yield from ((Mark.FILE, word) for word in (*_RUN.findall(text), *_SOURCED.findall(text)))
    yield from ((Mark.PROGRAM, word) for word in _PROGRAMS.findall(text))
    yield from ((Mark.RUN_MODULE, word.replace(".", "/")) for word in _MODULES.findall(text))
    yield from ((Mark.SCRIPT, word) for word in dict.fromkeys(_WORD.findall(text)))
    for name in re.findall(r"^[ \t]*use[ \t_]+(flake|nix|devenv)\b", text, re.MULTILINE):
        yield from ((Mark.FILE, f"./{file_name}") for file_name in _FLAKES[name])
    if path.endswith(".rs"):
        for name in _RUST.findall(text):
            yield from ((Mark.FILE, f"./{name}.rs"), (Mark.FILE, f"./{name}/mod.rs"))
        yield from ((Mark.FILE, word) for word in _INCLUDED.findall(text))
    else:
        yield from ((Mark.FILE, f"./{word}") for word in _REQUIRED.findall(text))


def _list_imports(path: str, text: str) -> Iterator[tuple[Mark, str]]:
    """Yield the modules that a Python text imports, or that a text passes to Python."""
    if path.endswith("pyproject.toml"):
        for directory, backend in product(re.findall(r"'([^']*)'", text), re.findall(r"\] ([\w.]+)", text)):
            yield Mark.MODULE, posixpath.join(directory, backend.replace(".", "/"))
        return
    if not path.endswith((".py", ".pyw", ".pth")) and "python" not in text[:80]:
        text = "\n".join(_INLINE_PYTHON.findall(text))
    for names in _IMPORTS.findall(text):
        yield from ((Mark.MODULE, name.split()[0].replace(".", "/")) for name in names.split(",") if name.strip())
    yield from ((Mark.MODULE, name.replace(".", "/")) for name in _CALLED_IMPORTS.findall(text))
    for dots, module, inner, plain in _FROM.findall(text):
        above = "./" + "../" * (len(dots) - 1) if dots else ""
        base = above + module.replace(".", "/")
        yield Mark.MODULE, base
        for name in (inner or plain).split(","):
            if name.strip().isidentifier() or " as " in name:
                yield Mark.MODULE, posixpath.join(base, name.split()[0])


def _list_keyed(path: str, text: str) -> Iterator[tuple[Mark, str]]:
    """Yield the values of the keys that name files, by the kind of the file."""
    _, files, places = next((row for row in _KEYS if row[0].search(path)), (None, (), ()))
    for mark, keys in ((Mark.FILE, files), (Mark.PLACE, places)):
        blocks = [block for _, block in cut_blocks(_split_keys(text), keys)] if keys else []
        for raw in re.findall(r"[\w.@+~*/{}$-]+", "\n".join(blocks)):
            word = raw if "{" in raw else raw.rstrip("}")
            if "repo" in keys and not word.startswith((".", "/")):
                continue
            if word == "." and "repo" in keys:
                yield Mark.FILE, ".pre-commit-hooks.yaml"
            elif word.strip("./"):
                yield mark, word
            if "taskfile" in keys and "." not in word.rpartition("/")[2]:
                yield from ((mark, f"{word}/*.{ending}") for ending in ("yml", "yaml"))


def _split_keys(text: str) -> str:
    """Put every key of a text in braces on its own line."""
    return re.sub(r"([{,])\s*(?=[\"']?[\w./]+[\"']?\s*:)", r"\1\n", text) if "{" in text else text


# ends of paths


class _Tokens:
    """The tokens of a text, collected line by line."""

    def __init__(self) -> None:
        self.names = dict[str, dict[str, None]]()
        self.globs = dict[str, None]()
        self.places = dict[str, dict[str, None]]()
        self.tails, self.run_places, self.parts = set[str](), set[str](), set[str]()

    def add(self, text: str, *, runs_all: bool) -> None:
        for token, colon in dict.fromkeys(_TOKEN.findall(text)):
            for path, is_tail in _list_ends(token):
                above, _, name = path.rpartition("/")
                is_glob = "*" in name or "?" in name
                if is_glob:
                    self._add_glob(above, name, runs_all=runs_all or _ANY in token)
                elif len(self.names) < _MAX_WORDS:
                    self.names.setdefault(name, {})[("/" if token.startswith(("/", _ANY)) else "") + path] = None
                self._add_place(above if is_glob else path, is_tail=is_tail, is_key=bool(colon), runs_all=runs_all)

    def _add_place(self, path: str, *, is_tail: bool, is_key: bool, runs_all: bool) -> None:
        self.parts.update(path.split("/"))
        if path and not is_key:
            if is_tail:
                self.tails.add(path)
            else:
                self.places.setdefault(path.partition("/")[0], {})[path] = None
            self.run_places.update((path,) if runs_all else ())

    def _add_glob(self, above: str, name: str, *, runs_all: bool) -> None:
        """Add a pattern for ends of paths, except one that matches files that are only checked, such as all tests."""
        name = re.sub(r"\*.*\*", "*", name) if name.count("*") > _MAX_STARS and "**" not in name else name
        bare = re.sub(r"\.\w+\Z", "", name)
        stem = bare.strip("*?")
        if "**" in name or len(self.globs) > _MAX_GLOBS or not name.strip("*?") or not (above or stem):
            return
        if CODE.search(name) is None and above:  # it ends with a wildcard, which any data could match
            any_name = (
                "".join({"*": "[^/.\n]*"}.get(character) or re.escape(character) for character in name)
                + r"(?:\.(?:ba|z)?sh)?"
            )
        elif SHELL.search(name) or (CODE.search(name) and runs_all):
            any_name = "".join(_WILDCARDS.get(character) or re.escape(character) for character in name)
        else:
            return
        self.globs[rf"^(?:.*/)?{re.escape(above + '/') if above else ''}{any_name}$"] = None


def _add_tokens(text: str, exact: dict[str, tuple[str, ...]], data_globs: tuple[str, ...]) -> ReferenceWords:
    tokens = _Tokens()
    undone = _normalize_text(text)
    tokens.add(undone, runs_all=False)
    tokens.add("\n".join(line for line in undone.splitlines() if _RUNS_ALL.search(line)), runs_all=True)
    return ReferenceWords(
        exact=exact,
        names={name: tuple(ends) for name, ends in tokens.names.items()},
        globs=re.compile("|".join(tokens.globs), re.MULTILINE) if tokens.globs else None,
        places={first: tuple(places) for first, places in tokens.places.items()},
        tails=frozenset(tokens.tails),
        run_places=frozenset(tokens.run_places),
        parts=frozenset(tokens.parts),
        data_globs=data_globs,
        calls=tuple(find_calls(text)),
        undone=re.sub(r"[\\'\"]", "", text).lower(),
    )


def _normalize_text(text: str) -> str:
    """Return a text in lower case in two variants, with quotes as boundaries and with quotes removed; without braces
    and variables."""
    text = text.lower().replace("\\\n", " ")
    for _ in range(4):
        inner = "\n".join(_INNER_COMMAND.findall(text))
        text = _INNER_COMMAND.sub("$()", text) + "\n" + inner if inner else text
    variants = [re.sub(r"[\\'\"]", " ", text), re.sub(r"[\\'\"]", "", text)]
    variants += [re.sub(r"[\"']", " ", text.replace("\\\\", "/").replace("\\", "/"))] if "\\" in text else []
    lines = dict.fromkeys(line for variant in variants for line in variant.splitlines())
    normalized = _CLASS.sub("?", _VARIABLES.sub(_ANY, "\n".join(lines)))
    if "{" not in normalized:
        return normalized
    return "\n".join(
        " ".join(map(_expand_braces, line.split(" "))) if "{" in line else line for line in normalized.split("\n")
    )


def _expand_braces(word: str) -> str:
    for _ in range(3):
        if "{" in word and "}" in word and len(word) < _MAX_WORD:
            word = _BRACES.sub(_expand, word)
    return word


def _expand(match: re.Match[str]) -> str:
    inner = ["*"] if re.fullmatch(r"\w+\.\.\w+", match[2]) else match[2].split(",")[:64]
    return " ".join(f"{match[1]}{alternative.strip()}{match[3]}" for alternative in inner)


def _list_ends(token: str) -> Iterator[tuple[str, bool]]:
    """Yield the known ends of the path that a token means, and True if its directory is unknown."""
    words = [token.lstrip("@")]
    if re.match(r"-[a-z][\w./]", token):
        words.append(token[2:])  # an option with its value
    for word in words:
        path = posixpath.normpath(word.replace(_ANY, "*")).lstrip("/") if word.strip("./") else ""
        is_tail = word.startswith((_ANY, "/"))
        while path.startswith("../"):
            path, is_tail = path[3:], True
        above, _, name = path.rpartition("/")
        if "*" in above or "?" in above:
            path, is_tail = re.sub(r".*[*?][^/]*/", "", above + "/") + name, True
        if path.strip("*?./") or (path and above):
            yield path, is_tail
