# ruff: noqa: E501 (a table; each file is best seen whole)
"""Plan files as people and other tools write them, each a variant that has to survive a change of something else.

Every one has the todos `a` (pending) and `b` (which may depend on `a`), and a body.
"""

from __future__ import annotations

HEAD = "name: Login\noverview: Add a login.\n"
A = "  - id: a\n    content: First\n    status: pending\n"
B = "  - id: b\n    content: Second\n    status: pending\n"


def file(front: str, body: str = "# Body\n\ntext\n") -> str:
    return f"---\n{front}---\n{body}"


PLAN_FILES: dict[str, str] = {
    "as we write it": file(f"{HEAD}todos:\n{A}{B}    dependencies:\n      - a\nisProject: false\n", "\n# Body\n"),
    "without dependencies": file(f"{HEAD}todos:\n{A}{B}"),
    "empty dependencies": file(f"{HEAD}todos:\n{A}    dependencies: []\n{B}    dependencies: [a]\n"),
    "dependencies without a value": file(f"{HEAD}todos:\n{A}    dependencies:\n{B}"),
    "dashes in the first column": file(f"{HEAD}todos:\n" + (A + B).replace("\n  ", "\n").removeprefix("  ")),
    "four columns": file(f"{HEAD}todos:\n" + (A + B).replace("    ", "      ").replace("  - ", "    - ")),
    "todos in flow style": file(f"{HEAD}todos: [{{id: a, content: First, status: pending}}, {{id: b, content: B}}]\n"),
    "todos in flow style over lines": file(f"{HEAD}todos: [\n  {{id: a, content: x}},\n  {{id: b, content: y}}\n]\n"),
    "flow items in a block list": file(f"{HEAD}todos:\n  - {{ id: a, content: 'First' }}\n  - {{id: b, content: B}}\n"),
    "the whole front in flow style": file(
        '{name: L, todos: [{"id": "a", "content": "x"}, {"id": "b", "content": "y"}]}\n'
    ),
    "json": file(
        '{\n  "name": "L",\n  "overview": "o",\n  "todos": [\n    {"id": "a", "content": "x", "status": "pending"},\n'
        '    {"id": "b", "content": "y", "status": "pending", "dependencies": ["a"]}\n  ]\n}\n'
    ),
    "crlf": file(f"{HEAD}todos:\n{A}{B}", "# Body\n\ntext\n").replace("\n", "\r\n"),
    "a byte order mark": "\ufeff" + file(f"{HEAD}todos:\n{A}{B}"),
    "mixed line ends": file(
        f"{HEAD}todos:\n{A}{B}".replace("overview: Add a login.\n", "overview: x\r\n"), "a\r\nb\nc\r\n"
    ),
    "no newline at the end": file(f"{HEAD}todos:\n{A}{B}", "# Body"),
    "no body": file(f"{HEAD}todos:\n{A}{B}", ""),
    "comments everywhere": file(
        f"# top\n{HEAD}# about the todos\ntodos: # these\n  # the first\n{A}  # the second - of two\n{B}# end\n"
    ),
    "comments behind values": file(
        "name: L # n\noverview: o   # o\ntodos:\n  - id: a # key\n    content: First # c\n    status: pending   # now\n"
        "  - id: b\n    content: 'x # y' # c\n"
    ),
    "unknown keys": file(
        f"version: 2\n{HEAD}todos:\n{A}    owner: me\n    tags: [x, y]\n{B}    estimate: {{hours: 2}}\nmeta:\n  deep:\n    - 1\n"
    ),
    "keys in another order": file(
        "todos:\n  - status: pending\n    content: First\n    id: a\n  - content: Second\n    id: b\noverview: o\nname: L\n"
    ),
    "double quotes": file(
        f"{HEAD}todos:\n" + '  - id: "a"\n    content: "Say \\"hi\\": \\u00e9"\n    status: "pending"\n' + B
    ),
    "single quotes": file(f"{HEAD}todos:\n  - id: 'a'\n    content: 'It''s: done'\n    status: 'pending'\n{B}"),
    "quoted keys": file('"name": L\n\'todos\':\n  - "id": a\n    \'content\': First\n    "status": pending\n' + B),
    "literal blocks": file(
        "name: L\noverview: |\n  Two\n  lines.\n\ntodos:\n  - id: a\n    content: |-\n      First\n\n      more\n    status: pending\n"
        + B
    ),
    "a literal block at the end": file(f"{HEAD}todos:\n{A}  - id: b\n    content: |\n      Second\n      and more\n"),
    "folded blocks": file(
        f"name: L\noverview: >\n  long\n  words\n\n  and\ntodos:\n  - id: a\n    content: >-\n      x\n      y\n{B}"
    ),
    "a block with its indentation said": file(
        f"{HEAD}todos:\n  - id: a\n    content: |2\n        deep\n      less\n{B}"
    ),
    "plain over lines": file(
        f"name: L\noverview: a long\n  overview over\n  lines\ntodos:\n  - id: a\n    content: First\n      thing\n{B}"
    ),
    "quoted over lines": file(
        f'name: L\noverview: "a long\n  overview"\ntodos:\n  - id: a\n    content: "x\n\n      y"\n{B}'
    ),
    "blank lines": file(f"\n{HEAD}\ntodos:\n\n{A}\n\n{B}\n\nisProject: false\n\n"),
    "wide gaps": file(f"name:    L\noverview:   'o'\ntodos:   \n{A.replace(': ', ':   ')}{B}"),
    "trailing white space": file(
        f"name: L  \noverview: o\ntodos:\n{A.replace('First', 'First  ')}{B}".replace("id: b", "id: b  ")
    ),
    "anchors and aliases": file(
        f"x-state: &p pending\nx-deps: &d [a]\n{HEAD}todos:\n  - id: a\n    content: &c First\n    status: *p\n"
        "  - id: b\n    content: *c\n    status: *p\n    dependencies: *d\n"
    ),
    "merge keys": file(
        f"base: &base\n  status: pending\n  owner: me\n{HEAD}todos:\n  - <<: *base\n    id: a\n    content: x\n{B}"
    ),
    "tags": file(f"{HEAD}todos:\n  - id: !!str a\n    content: !!str 12\n    status: !s pending\n{B}"),
    "numbers as ids": file(
        f"{HEAD}version: 1.0\ntodos:\n{A}{B}    dependencies:\n      - a\n  - id: 3\n    content: 4\n"
    ),
    "other words for a status": file(
        f"{HEAD}todos:\n  - id: a\n    content: x\n    status: todo\n{B}  - id: c\n    content: z\n    status: done\n"
    ),
    "the dash alone": file(f"{HEAD}todos:\n  -\n    id: a\n    content: First\n  -\n    id: b\n    content: B\n"),
    "scripts and signs": file(
        f"name: Вход 登录 🔑\noverview: näher\ntodos:\n  - id: a\n    content: שלום — “x”\n{B}", "# 登录\n"
    ),
    "rules in the body": file(f"{HEAD}todos:\n{A}{B}", "# Body\n\n---\nname: not this\n---\n"),
    "dots at the end": file(f"{HEAD}todos:\n{A}{B}...\n"),
    "deep lists in unknown keys": file(
        f"{HEAD}phases:\n  - name: one\n    steps: [[1, 2], {{x: y}}]\ntodos:\n{A}{B}    refs:\n      - - x\n"
    ),
    "no name and no overview": file(f"todos:\n{A}{B}"),
    "windows paths and colons": file(
        f"{HEAD}todos:\n  - id: a\n    content: 'C:\\x: y'\n{B}    url: http://x.example/a#b\n"
    ),
}
