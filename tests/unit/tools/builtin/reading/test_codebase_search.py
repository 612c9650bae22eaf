"""codebase_search: where it looks, as models say it."""

from __future__ import annotations

import pytest

from core.protocol.events import IndexStatus
from core.protocol.queries import SearchAnswer
from core.tools.builtin.reading.codebase_search import CodebaseSearch


class Desk:
    """A reader that keeps what it was asked for."""

    def relative(self, path):
        return path.removeprefix("/project/") or "."

    async def search(self, query):
        self.asked = query
        return SearchAnswer(status=IndexStatus(state="ready"))


@pytest.mark.parametrize(
    ("given", "directories"),
    [
        ((), ()),
        (("src", "/project/lib/"), ("src", "lib")),
        (("src/**", "lib/**/*"), ("src", "lib")),
        (("**/*",), ()),
        (("src", "."), ()),
    ],
)
async def test_directories_may_be_written_as_patterns_and_one_of_all_is_all(given, directories):
    desk = Desk()
    outcome = await CodebaseSearch(query="x", target_directories=given).run(desk)
    assert (desk.asked.directories, outcome.content) == (directories, "Nothing found.")
