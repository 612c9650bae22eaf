"""Lazy edits of Python functions and values."""

# ruff: noqa: E501  (a case is a line)
from __future__ import annotations

from tests.edits_corpus.case import Row, swap

TASKS = """def prepare(items):
    ready = []
    for item in items:
        if item.done:
            continue
        ready.append(item)
    return ready


def run(items):
    count = 0
    for item in prepare(items):
        item.run()
        count += 1
    return count


def report(count):
    print(f"ran {count}")


if __name__ == "__main__":
    report(run([]))
"""
RUN = TASKS[TASKS.index("def run") : TASKS.index("def report")]
SETTINGS = """SETTINGS = {
    "debug": False,
    "cache": {
        "size": 100,
        "ttl": 60,
    },
    "hosts": ["localhost"],
}
"""
PROTOCOL = """from typing import Protocol


class Repo(Protocol):
    def get(self, key: int) -> str: ...

    def put(self, key: int, value: str) -> None: ...
"""
MARK = "# ... existing code ...\n"

CASES: list[Row] = [
    (
        "py, a changed signature and nothing else",
        "tasks.py",
        TASKS,
        "def run(items, limit=None):\n    count = 0\n    for item in prepare(items)[:limit]:\n        item.run()\n        count += 1\n    return count\n",
        swap(
            swap(TASKS, "def run(items)", "def run(items, limit=None)"),
            "prepare(items):\n",
            "prepare(items)[:limit]:\n",
            last=True,
        ),
    ),
    (
        "py, a renamed function between two that are kept",
        "tasks.py",
        TASKS,
        f"def prepare(items):\n    {MARK}\n\ndef execute(items):\n    count = 0\n    for item in prepare(items):\n        item.run()\n        count += 1\n    return count\n\n\n"
        f'def report(count):\n    {MARK}\n\nif __name__ == "__main__":\n    report(execute([]))\n',
        swap(swap(TASKS, "def run(", "def execute("), "report(run(", "report(execute("),
    ),
    (
        "py, a function indented as a whole",
        "tasks.py",
        TASKS,
        '    def report(count):\n        print(f"did {count}")\n',
        swap(TASKS, "ran {", "did {"),
    ),
    (
        "py, no newline at the end",
        "tasks.py",
        TASKS[:-1],
        f'{MARK}\nif __name__ == "__main__":\n    print("start")\n    report(run([]))\n',
        swap(TASKS, "    report(run", '    print("start")\n    report(run')[:-1],
    ),
    ("py, an empty file", "new.py", "", "def one():\n    return 1\n", "def one():\n    return 1\n"),
    (
        "py, an empty file and a marker",
        "new.py",
        "",
        f"{MARK}\n\ndef one():\n    return 1\n",
        "def one():\n    return 1\n",
    ),
    ("py, the file itself", "tasks.py", TASKS, TASKS, TASKS),
    (
        "py, the file itself with markers",
        "tasks.py",
        TASKS,
        f"{MARK}\n{RUN}{MARK}",
        TASKS,
    ),
    (
        "py, the middle of a body",
        "tasks.py",
        TASKS,
        f"{MARK}\ndef run(items):\n    {MARK}\n    for item in prepare(items):\n        item.run(force=True)\n        {MARK}\n    {MARK}\n\n{MARK}",
        swap(TASKS, "item.run()", "item.run(force=True)"),
    ),
    (
        "py, a line before a return",
        "tasks.py",
        TASKS,
        f'{MARK}\ndef run(items):\n    {MARK}    print("done")\n    return count\n\n{MARK}',
        swap(TASKS, "    return count\n", '    print("done")\n    return count\n'),
    ),
    (
        "py, the block at the end of the file",
        "tasks.py",
        TASKS,
        f'{MARK}\nif __name__ == "__main__":\n    import sys\n\n    report(run(sys.argv))\n',
        swap(TASKS, "    report(run([]))\n", "    import sys\n\n    report(run(sys.argv))\n"),
    ),
    (
        "py, a key of an inner dict",
        "settings.py",
        SETTINGS,
        'SETTINGS = {\n    # ... existing settings ...\n    "cache": {\n        "size": 100,\n        "ttl": 600,\n    },\n    # ... existing settings ...\n}\n',
        swap(SETTINGS, '"ttl": 60,', '"ttl": 600,'),
    ),
    (
        "py, a key at the end of a dict",
        "settings.py",
        SETTINGS,
        'SETTINGS = {\n    # ... existing settings ...\n    "timeout": 30,\n}\n',
        swap(SETTINGS, '["localhost"],\n', '["localhost"],\n    "timeout": 30,\n'),
    ),
    (
        "py, a stub among stubs of three dots",
        "repo.py",
        PROTOCOL,
        f"{MARK}\nclass Repo(Protocol):\n    {MARK}\n    def put(self, key: int, value: str) -> None: ...\n\n    def drop(self, key: int) -> None: ...\n",
        PROTOCOL + "\n    def drop(self, key: int) -> None: ...\n",
    ),
    (
        "py, markers that say what they stand for",
        "tasks.py",
        TASKS,
        '# ... prepare() and run() stay the same ...\n\n\ndef report(count):\n    print(f"{count} ran")\n\n\n# ... main block unchanged ...\n',
        swap(TASKS, 'f"ran {count}"', 'f"{count} ran"'),
    ),
    (
        "py, a marker in brackets",
        "tasks.py",
        TASKS,
        '# [existing code]\n\ndef report(count):\n    print(f"{count} ran")\n\n\n# [rest of the file unchanged]\n',
        swap(TASKS, 'f"ran {count}"', 'f"{count} ran"'),
    ),
    (
        "py, a marker of a single character",
        "tasks.py",
        TASKS,
        '# … existing code …\n\ndef report(count):\n    print(f"{count} ran")\n\n# … rest of file …\n',
        swap(TASKS, 'f"ran {count}"', 'f"{count} ran"'),
    ),
    (
        "py, a function between two others",
        "tasks.py",
        TASKS,
        f"{MARK}\ndef run(items):\n    {MARK}\n\ndef dry_run(items):\n    return len(prepare(items))\n\n\ndef report(count):\n    {MARK}\n{MARK}",
        swap(TASKS, "def report(", "def dry_run(items):\n    return len(prepare(items))\n\n\ndef report("),
    ),
    (
        "py, a line at the start of a body",
        "tasks.py",
        TASKS,
        f"{MARK}\ndef prepare(items):\n    items = list(items)\n    {MARK}\n\n{MARK}",
        swap(TASKS, "    ready = []\n", "    items = list(items)\n    ready = []\n"),
    ),
    (
        "py, a function made async",
        "tasks.py",
        TASKS,
        f"{MARK}\nasync def run(items):\n    count = 0\n    for item in prepare(items):\n        await item.run()\n        count += 1\n    return count\n\n\n{MARK}",
        swap(swap(TASKS, "def run(", "async def run("), "        item.run()", "        await item.run()"),
    ),
    (
        "py, two functions that stand in the file far apart",
        "tasks.py",
        TASKS,
        "def prepare(items):\n    return [item for item in items if not item.done]\n\ndef report(count):\n    print(count)\n",
        None,
    ),
    (
        "py, a line that two functions have",
        "app.py",
        "def a():\n    x = 1\n    y = 2\n\ndef b():\n    x = 1\n    y = 2\n",
        "# ... existing code ...\n    x = 1\n    z = 3\n# ... existing code ...\n",
        None,
    ),
]
