"""The names of a project's files, and which of them a word can mean: a path, the end of one, a file's name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from core.text.similarity import find_closest

MAX_SEARCHED: Final = 100_000  # names that are compared with one that is not there
_LIKE_PATHS: Final = 0.62  # similarity from which a name may have been meant


class ProjectNames:
    """The files of a project by what they are called. Made once for a listing, and not changed."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._by_name: dict[str, list[str]] = defaultdict(list)
        self._directories: dict[str, list[str]] = defaultdict(list)
        self.endings: set[str] = set()
        known: set[str] = set()
        for path in paths:
            above, _, name = path.rpartition("/")
            self._by_name[name.lower()].append(path)
            self.endings.add(name.rpartition(".")[2].lower() if "." in name else "")
            while above and above not in known:
                known.add(above)
                higher, _, last = above.rpartition("/")
                self._directories[last.lower()].append(above)
                above = higher

    def find_files(self, name: str) -> tuple[str, ...]:
        """Find the files whose path is `name` or ends with it, as whole names; its case counts where it decides."""
        return _select(self._by_name, name)

    def find_directories(self, name: str) -> tuple[str, ...]:
        """Find the directories whose path is `name` or ends with it."""
        return _select(self._directories, name.rstrip("/"))

    def find_titled(self, word: str) -> tuple[str, ...]:
        """Find files by a word like README or Makefile: a name without its ending, in the same case."""
        if not (word.isupper() and len(word) > 3) and not word.istitle():
            return ()
        whole = [path for path in self._by_name.get(word.lower(), ()) if path.rpartition("/")[2] == word]
        endings = ("", ".md", ".rst", ".txt") if word.isupper() else ()
        named = [path for end in endings for path in self._by_name.get(f"{word.lower()}{end}", ())]
        return _prefer_exact([*whole, *(path for path in named if path not in whole)], word)

    def find_near(self, name: str, more: Iterable[str] = ()) -> list[str]:
        """Find paths (and `more` words) that may have been meant by a name that is none, best first."""
        last = name.rstrip("/").rpartition("/")[2].lower()
        words = [*list(self._by_name)[:MAX_SEARCHED], *list(self._directories)[:MAX_SEARCHED]]
        others = list(more)
        found: list[tuple[float, str]] = []
        for index, likeness in find_closest(last, [*words, *(each.lower() for each in others)], cutoff=_LIKE_PATHS):
            if index >= len(words):
                found.append((likeness, others[index - len(words)]))
                continue
            paths = self._by_name.get(words[index], []) + [
                f"{each}/" for each in self._directories.get(words[index], [])
            ]
            found += [(likeness, path) for path in sorted(paths, key=lambda each: (each.count("/"), each))[:2]]
        return [path for _, path in sorted(found, key=lambda each: -each[0])][:3]


def _select(known: dict[str, list[str]], name: str) -> tuple[str, ...]:
    wanted = name.removeprefix("./").strip("/")
    last = wanted.rpartition("/")[2]
    if not last:
        return ()
    suffix = f"/{wanted.lower()}"
    found = [path for path in known.get(last.lower(), ()) if f"/{path.lower()}".endswith(suffix)]
    cased = [path for path in found if f"/{path}".endswith(f"/{wanted}")]
    return _prefer_exact(cased or found, wanted)


def _prefer_exact(paths: list[str], wanted: str) -> tuple[str, ...]:
    """A path that is named from the top is meant, whatever else ends with it."""
    stems = {wanted, f"{wanted}.md"}
    exact = [path for path in paths if path in stems]
    return tuple(exact[:1] or sorted(paths, key=lambda path: (path.count("/"), path)))
