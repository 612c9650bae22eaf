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
        known_directories: set[str] = set()
        for path in paths:
            above, _, name = path.rpartition("/")
            self._by_name[name.lower()].append(path)
            self.endings.add(name.rpartition(".")[2].lower() if "." in name else "")
            while above and above not in known_directories:
                known_directories.add(above)
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
        exact_paths = [path for path in self._by_name.get(word.lower(), ()) if path.rpartition("/")[2] == word]
        endings = ("", ".md", ".rst", ".txt") if word.isupper() else ()
        stem_paths = [path for end in endings for path in self._by_name.get(f"{word.lower()}{end}", ())]
        return _prefer_exact([*exact_paths, *(path for path in stem_paths if path not in exact_paths)], word)

    def find_near(self, name: str, extra_words: Iterable[str] = ()) -> list[str]:
        """Find paths (and `extra_words` words) that may have been meant by a name that is none, best first."""
        last = name.rstrip("/").rpartition("/")[2].lower()
        words = [*list(self._by_name)[:MAX_SEARCHED], *list(self._directories)[:MAX_SEARCHED]]
        others = list(extra_words)
        candidates: list[tuple[float, str]] = []
        for index, likeness in find_closest(last, [*words, *(word.lower() for word in others)], cutoff=_LIKE_PATHS):
            if index >= len(words):
                candidates.append((likeness, others[index - len(words)]))
                continue
            paths = self._by_name.get(words[index], []) + [
                f"{directory}/" for directory in self._directories.get(words[index], [])
            ]
            candidates += [(likeness, path) for path in sorted(paths, key=lambda path: (path.count("/"), path))[:2]]
        return [path for _, path in sorted(candidates, key=lambda candidate: -candidate[0])][:3]


def _select(paths_by_name: dict[str, list[str]], name: str) -> tuple[str, ...]:
    target = name.removeprefix("./").strip("/")
    last = target.rpartition("/")[2]
    if not last:
        return ()
    suffix = f"/{target.lower()}"
    matches = [path for path in paths_by_name.get(last.lower(), ()) if f"/{path.lower()}".endswith(suffix)]
    exact_matches = [path for path in matches if f"/{path}".endswith(f"/{target}")]
    return _prefer_exact(exact_matches or matches, target)


def _prefer_exact(paths: list[str], target: str) -> tuple[str, ...]:
    """A path that is named from the top is meant, whatever else ends with it."""
    stems = {target, f"{target}.md"}
    exact = [path for path in paths if path in stems]
    return tuple(exact[:1] or sorted(paths, key=lambda path: (path.count("/"), path)))
