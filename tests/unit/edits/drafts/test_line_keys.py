"""The key of a line names what it defines, and nothing else does."""

from __future__ import annotations

import pytest

from core.edits.drafts.line_keys import parse_line_key


@pytest.mark.parametrize(
    "line",
    [
        ": globbySync(process.argv.slice(3)))",
        "? globbySync(process.argv[3])",
        "is_ready && run(options)",
        "total + add(tax)",
        "or fall_back(path)",
        "return load(path)",
        "names, *rest = split(line);",
        "if (is_ready) {",
    ],
)
def test_a_line_that_only_uses_something_defines_nothing(line: str):
    assert not (parse_line_key(line) or "").startswith("definition ")


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("std::vector<int> load(int count)", "load"),
        ("public static Map<String, List<Order>> load(Path path)", "load"),
        ("static char *load(void)", "load"),
        ("int &load(int index) const", "load"),
        ("export async function load(path) {", "load"),
        ("func (p *Pool) Load(path string) error {", "Pool.Load"),
        ("pub(crate) fn load<T>(path: &Path) -> T {", "load"),
    ],
)
def test_the_head_of_a_definition_has_its_name(line: str, name: str):
    assert parse_line_key(line) == f"definition {name}"
