"""One file changes its content in one step, and what another program wrote in that very moment keeps its place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from core.errors import ReviewConflict
from core.filesystem.atomic_write import make_temporary_name
from core.filesystem.file_dates import FileDates
from core.protocol.review import FileState
from core.shadow.promotion.file_swap import FileSwaps
from core.shadow.promotion.journal import PathWrite
from core.workspace import ABSENT
from tests.unit.shadow.review_case import ReviewCase


class SwapCase:
    """One write of `a` in a project, from `old` to `new` (None: no file)."""

    def __init__(self, place: Path, old: bytes | None, new: bytes | None) -> None:
        self.review = ReviewCase(place)
        self.root = self.review.root
        if old is not None:
            self.review.put("a", old)
        after = ABSENT if new is None else self._state_of(new)
        before = self.review.workspace.read_state("a")[0]
        if old is not None:
            self.review.shadow.blobs.put(old)
        self.write = PathWrite(path="a", before=before, after=after, temporary=make_temporary_name().decode())

    def _state_of(self, data: bytes) -> FileState:
        return FileState(kind="file", blob=self.review.shadow.blobs.put(data), mode=0o644, size=len(data))

    def swap(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Swap; `meanwhile` is done between the look at the file and the exchange."""

        def step(_: str) -> None:
            meanwhile()

        swaps = FileSwaps(self.review.workspace, self.review.shadow.blobs, step, FileDates())
        if self.write.after != ABSENT:
            swaps.write_content(self.write, self.write.after)
        swaps.swap(self.write)

    def temporary(self) -> bytes | None:
        return self.review.disk(self.write.temporary)


@pytest.mark.parametrize(("old", "new"), [(b"old\n", b"new\n"), (b"old\n", None), (None, b"new\n")])
def test_the_new_content_stands_and_the_old_one_is_kept_under_the_temporary_name(tmp_path, old, new):
    case = SwapCase(tmp_path, old, new)
    case.swap()
    assert (case.review.disk("a"), case.temporary()) == (new, old)


@pytest.mark.parametrize("new", [b"new\n", None])
def test_n15_what_is_written_into_the_file_in_that_moment_is_put_back_at_once(tmp_path, new):
    case = SwapCase(tmp_path, b"old\n", new)
    with pytest.raises(ReviewConflict, match="changed since the change was made"):
        case.swap(lambda: (case.root / "a").write_bytes(b"mine\n"))
    assert case.review.disk("a") == b"mine\n"
    assert case.temporary() == new


def test_n15_a_file_that_takes_the_place_in_that_moment_keeps_it(tmp_path):
    case = SwapCase(tmp_path, None, b"new\n")
    with pytest.raises(ReviewConflict):
        case.swap(lambda: (case.root / "a").write_bytes(b"mine\n"))
    assert case.review.disk("a") == b"mine\n"


@pytest.mark.parametrize("new", [b"new\n", None])
def test_n15_a_file_that_goes_in_that_moment_does_not_come_back(tmp_path, new):
    case = SwapCase(tmp_path, b"old\n", new)
    with pytest.raises((ReviewConflict, OSError)):
        case.swap((case.root / "a").unlink)
    assert case.review.disk("a") is None
