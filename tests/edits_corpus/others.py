"""Line plans, lazy edits and drafts, one by one."""

# ruff: noqa: E501  (a case is a line)
from __future__ import annotations

from collections.abc import Iterator

from tests.edits_corpus import drafts, lazies
from tests.edits_corpus.case import Case, Kind, plan
from tests.edits_corpus.patches import ABC, COMMANDS, COMMANDS_REFUSED, PATCHES, PATCHES_REFUSED

COUNTER = """class Counter {
  constructor() {
    this.value = 0;
  }

  up(by) {
    this.value += by;
    return this;
  }

  down(by) {
    this.value -= by;
    return this;
  }
}
"""
APP = """import os
from flask import Flask

app = Flask(__name__)


@app.get("/")
def home():
    return "home"


@app.get("/about")
def about():
    name = os.environ["NAME"]
    return f"about {name}"
"""
CLASS = "class MyClass:\n    def __init__(self):\n        self.x = 1\n        self.y = 2\n        self.z = 3\n\nprint(MyClass().z)\nprint(MyClass().x)\n"
LONG = "".join(f"line {number}\n" for number in range(1, 401))

# (name, original, plan, expected)
PLANS = [
    ("one line", ABC, plan((2, 2, "B")), "a\nB\nc\n"),
    ("one line with its newline", ABC, plan((2, 2, "B\n")), "a\nB\nc\n"),
    ("two ranges", ABC, plan((1, 1, "A"), (3, 3, "C")), "A\nb\nC\n"),
    ("two ranges in reverse order", ABC, plan((3, 3, "C"), (1, 1, "A")), "A\nb\nC\n"),
    ("ranges that grow and shrink", ABC, plan((1, 1, "A\nA"), (2, 3, "B")), "A\nA\nB\n"),
    ("all lines", ABC, plan((1, 3, "x")), "x\n"),
    ("a deletion", ABC, plan((2, 2, "")), "a\nc\n"),
    ("a deletion of all", ABC, plan((1, 3, "")), ""),
    ("a deletion of the last line of an open file", "a\nb", plan((2, 2, "")), "a\n"),
    ("the last line of an open file", "a\nb", plan((2, 2, "B")), "a\nB"),
    ("the last line of an open file, closed", "a\nb", plan((2, 2, "B\n")), "a\nB"),
    ("an empty line", ABC, plan((2, 2, "\n")), "a\n\nc\n"),
    ("an empty line at the end", ABC, plan((2, 2, "B\n\n")), "a\nB\n\nc\n"),
    ("an insertion", ABC, plan((2, None, "x")), "a\nx\nb\nc\n"),
    ("an insertion at the top", ABC, plan((1, None, "x\ny\n")), "x\ny\na\nb\nc\n"),
    ("an insertion at the end", ABC, plan((4, None, "x")), "a\nb\nc\nx\n"),
    ("an insertion at the end of an open file", "a\nb", plan((3, None, "x")), "a\nb\nx"),
    ("CRLF", "a\r\nb\r\n", plan((2, 2, "x\ny")), "a\r\nx\r\ny\r\n"),
    ("mixed endings", "a\nb\r\nc\n", plan((2, 2, "B")), "a\nB\r\nc\n"),
    ("an empty file", "", plan((1, 1, "x\n")), "x\n"),
    ("no range", ABC, "[]", ABC),
    ("a fence", ABC, "```json\n" + plan((2, 2, "B")) + "\n```", "a\nB\nc\n"),
    ("dollars", ABC, plan((1, 1, "$1 \\1")), "$1 \\1\nb\nc\n"),
    ("a form feed", "a\x0cb\nc\n", plan((2, 2, "C")), "a\x0cb\nC\n"),
]
PLANS_REFUSED = [
    ("overlap", ABC, plan((1, 2, "x"), (2, 3, "y"))),
    ("the same range twice", ABC, plan((1, 1, "x"), (1, 1, "y"))),
    ("inverted", ABC, plan((3, 2, "x"))),
    ("zero", ABC, plan((0, 1, "x"))),
    ("negative", ABC, plan((-1, 1, "x"))),
    ("beyond the end", ABC, plan((2, 4, "x"))),
    ("begins beyond the end", ABC, plan((9, 9, "x"))),
    ("one of two beyond the end", ABC, plan((1, 1, "x"), (9, 9, "x"))),
    ("no JSON", ABC, "1-2: x"),
    ("no list", ABC, "3"),
    ("not a number", ABC, '[{"start_line": "one", "end_line": 1, "replacement": "x"}]'),
    ("half a line", ABC, '[{"start_line": 1.5, "end_line": 2, "replacement": "x"}]'),
    ("true", ABC, '[{"start_line": true, "end_line": 2, "replacement": "x"}]'),
    ("no text", ABC, '[{"start_line": 1, "end_line": 1}]'),
    ("a list of texts", ABC, '["x"]'),
]
# (name, path, original, draft, expected)
LAZY = [
    (
        "a member at the end",
        "c.js",
        COUNTER,
        "class Counter {\n  // ... existing code ...\n\n  reset() {\n    this.value = 0;\n  }\n}",
        COUNTER[:-2] + "\n  reset() {\n    this.value = 0;\n  }\n}\n",
    ),
    (
        "a member replaced",
        "c.js",
        COUNTER,
        "class Counter {\n  // ... existing code ...\n  up(by) {\n    this.value += 2 * by;\n    return this;\n  }\n  // ... existing code ...\n}",
        COUNTER.replace("+= by", "+= 2 * by"),
    ),
    (
        "comments added",
        "c.js",
        COUNTER,
        "class Counter {\n  // ... existing code ...\n\n  // Counts up.\n  up(by) {\n    this.value += by;\n    return this;\n  }\n\n  // Counts down.\n  down(by) {\n    this.value -= by;\n    return this;\n  }\n}\n",
        COUNTER.replace("  up(", "  // Counts up.\n  up(").replace("  down(", "  // Counts down.\n  down("),
    ),
    (
        "nested markers",
        "c.js",
        COUNTER,
        "// ... existing code ...\n  down(by) {\n    // ... existing code ...\n    return null;\n  }\n}",
        "null;".join(COUNTER.rsplit("this;", 1)),
    ),
    (
        "a marker of signs only",
        "c.js",
        COUNTER,
        "class Counter {\n  // ...\n\n  reset() {\n    this.value = 0;\n  }\n}",
        COUNTER[:-2] + "\n  reset() {\n    this.value = 0;\n  }\n}\n",
    ),
    (
        "a block comment",
        "c.js",
        COUNTER,
        "class Counter {\n  /* ... existing code ... */\n\n  reset() {\n    this.value = 0;\n  }\n}",
        COUNTER[:-2] + "\n  reset() {\n    this.value = 0;\n  }\n}\n",
    ),
    (
        "one member and nothing else",
        "c.js",
        COUNTER,
        "  down(by) {\n    this.value -= 1;\n    return this;\n  }\n",
        COUNTER.replace("-= by", "-= 1"),
    ),
    ("the whole file", "c.js", COUNTER, COUNTER.replace("by", "step"), COUNTER.replace("by", "step")),
    (
        "an import changed and a function",
        "app.py",
        APP,
        'import os\nfrom flask import Flask, abort\n\n# ... existing code ...\n\n@app.get("/about")\ndef about():\n    abort(404)\n',
        APP.replace("import Flask", "import Flask, abort").replace(
            '    name = os.environ["NAME"]\n    return f"about {name}"\n', "    abort(404)\n"
        ),
    ),
    (
        "an import added",
        "app.py",
        APP,
        "import os\nimport sys\n# ... existing code ...\n",
        APP.replace("import os\n", "import os\nimport sys\n"),
    ),
    (
        "a function at the end",
        "app.py",
        APP,
        '# ... existing code ...\n\n\n@app.get("/help")\ndef help():\n    return "help"\n',
        None,
    ),
    (
        "the start of a function",
        "app.py",
        APP,
        '# ... existing code ...\ndef about():\n    name = "x"\n    # ... existing code ...\n',
        APP.replace('os.environ["NAME"]', '"x"'),
    ),
    (
        "one function and nothing else",
        "app.py",
        APP,
        'def home():\n    return "start"\n',
        APP.replace('"home"', '"start"'),
    ),
    (
        "markers in other words",
        "app.py",
        APP,
        '# ... rest of the imports ...\n\n# ... (unchanged code) ...\n\n@app.get("/about")\ndef about():\n    return "about"\n',
        APP.replace('    name = os.environ["NAME"]\n    return f"about {name}"\n', '    return "about"\n'),
    ),
    (
        "a CRLF file",
        "app.py",
        APP.replace("\n", "\r\n"),
        "import os\nimport sys\n# ... existing code ...\n",
        APP.replace("import os\n", "import os\nimport sys\n").replace("\n", "\r\n"),
    ),
    (
        "a file without a final newline",
        "c.js",
        COUNTER[:-1],
        "class Counter {\n  // ... existing code ...\n  down(by) {\n    this.value = 0;\n    return this;\n  }\n}\n",
        COUNTER[:-1].replace("-= by", "= 0"),
    ),
    (
        "JSON with a comment",
        "x.json",
        '{\n  "a": 1,\n  "b": {\n    "c": 2\n  }\n}\n',
        '{\n  // ... existing code ...\n  "d": 4\n}\n',
        '{\n  "a": 1,\n  "b": {\n    "c": 2\n  },\n  "d": 4\n}\n',
    ),
    (
        "JSON with dots",
        "x.json",
        '{\n  "a": 1,\n  "b": {\n    "c": 2\n  }\n}\n',
        '{\n  ...\n  "b": {\n    "c": 3\n  }\n}\n',
        '{\n  "a": 1,\n  "b": {\n    "c": 3\n  }\n}\n',
    ),
    (
        "Markdown",
        "x.md",
        "# T\n\nintro\n\n## Use\n\nold text\n\n## License\n\nMIT\n",
        "<!-- ... existing content ... -->\n\n## Use\n\nnew text here\n\n## License\n<!-- ... existing content ... -->\n",
        "# T\n\nintro\n\n## Use\n\nnew text here\n\n## License\n\nMIT\n",
    ),
    (
        "Markdown, a paragraph that may be one more or another one",
        "x.md",
        "# T\n\nintro\n\n## Use\n\nold text\n\n## License\n\nMIT\n",
        "<!-- ... existing content ... -->\n\n## Use\n\nnew text here\n\n<!-- ... existing content ... -->\n",
        None,
    ),
    (
        "SQL",
        "x.sql",
        "CREATE TABLE a (\n    id INTEGER,\n    name TEXT\n);\n\nCREATE TABLE b (\n    id INTEGER\n);\n",
        "-- ... existing code ...\n\nCREATE TABLE b (\n    id INTEGER,\n    note TEXT\n);\n",
        "CREATE TABLE a (\n    id INTEGER,\n    name TEXT\n);\n\nCREATE TABLE b (\n    id INTEGER,\n    note TEXT\n);\n",
    ),
    (
        "HTML",
        "x.html",
        "<html>\n  <body>\n    <h1>A</h1>\n    <p>B</p>\n  </body>\n</html>\n",
        "<html>\n  <body>\n    <!-- ... existing code ... -->\n    <p>B</p>\n    <p>C</p>\n  </body>\n</html>\n",
        "<html>\n  <body>\n    <h1>A</h1>\n    <p>B</p>\n    <p>C</p>\n  </body>\n</html>\n",
    ),
    (
        "CSS",
        "x.css",
        ".a {\n  color: red;\n}\n\n.b {\n  color: blue;\n}\n",
        "/* ... existing styles ... */\n\n.b {\n  color: green;\n}\n",
        ".a {\n  color: red;\n}\n\n.b {\n  color: green;\n}\n",
    ),
    (
        "YAML",
        "x.yml",
        "a:\n  x: 1\n  y: 2\nb:\n  x: 3\n",
        "# ... existing code ...\nb:\n  x: 4\n",
        "a:\n  x: 1\n  y: 2\nb:\n  x: 4\n",
    ),
]
LAZY_REFUSED = [
    (
        "no anchor at all",
        "c.js",
        COUNTER,
        "// ... existing code ...\nfunction other() {\n  return 1;\n}\n// ... existing code ...\n",
    ),
    (
        "between two markers without an anchor",
        "c.js",
        COUNTER,
        "class Counter {\n  // ... existing code ...\n  reset() {\n    this.value = 0;\n  }\n  // ... existing code ...\n}\n",
    ),
    ("a snippet of nothing that is there", "c.js", COUNTER, "const other = 1;\n"),
    ("nothing", "c.js", COUNTER, "\n"),
    (
        "a result that does not parse",
        "c.js",
        COUNTER,
        "class Counter {\n  // ... existing code ...\n  down(by) {\n    this.value -= (by;\n    return this;\n  }\n}\n",
    ),
]
DRAFTS = [
    (
        "the middle",
        CLASS,
        '<file_edit path="/file.txt" start=1 end=-1>\nclass MyClass:\n    def __init__(self):\n        # no changes before\n        self.y = 2\n        # self.z is removed\n\n# MyClass().z is removed\nprint(MyClass().y)\n</file_edit>',
        "class MyClass:\n    def __init__(self):\n        self.x = 1\n        self.y = 2\n\nprint(MyClass().y)\n",
    ),
    (
        "an append",
        CLASS,
        '<file_edit path="file.txt" start=-1 end=-1>\nprint(MyClass().y)\n</file_edit>',
        CLASS + "print(MyClass().y)\n",
    ),
    ("an append to an open file", "a\nb", '<file_edit path="file.txt" start=-1 end=-1>\nc\n</file_edit>', "a\nb\nc"),
    (
        "a range",
        CLASS,
        '<file_edit path="file.txt" start=3 end=4>\n        self.x = 10\n</file_edit>',
        CLASS.replace("        self.x = 1\n        self.y = 2\n", "        self.x = 10\n"),
    ),
    (
        "a range to the end",
        CLASS,
        "<file_edit path='file.txt' start='7' end='-1'>\nprint(1)\n</file_edit>",
        CLASS[: CLASS.index("print")] + "print(1)\n",
    ),
    (
        "attributes in another order",
        CLASS,
        '<file_edit end="1" start="1" path="file.txt">\nclass Other:\n</file_edit>',
        CLASS.replace("class MyClass", "class Other"),
    ),
    (
        "no quotes",
        CLASS,
        "<file_edit path=file.txt start=1 end=1>\nclass Other:\n</file_edit>",
        CLASS.replace("class MyClass", "class Other"),
    ),
    ("a new file", None, '<file_edit path="file.txt">\nx = 1\ny = 2\n</file_edit>', "x = 1\ny = 2\n"),
    ("an empty file", "", '<file_edit path="file.txt">\nx = 1\n</file_edit>', "x = 1\n"),
    ("the whole of a short file", ABC, '<file_edit path="file.txt">\nx\n</file_edit>', "x\n"),
    (
        "a long file with a range",
        LONG,
        '<file_edit path="file.txt" start=200 end=201>\nx\n</file_edit>',
        LONG.replace("line 200\nline 201\n", "x\n"),
    ),
    (
        "no changes below",
        CLASS,
        '<file_edit path="file.txt">\nclass MyClass:\n    def __init__(self):\n        self.x = 5\n        # no changes below\n</file_edit>',
        CLASS.replace("self.x = 1", "self.x = 5"),
    ),
    (
        "the rest stays",
        CLASS,
        '<file_edit path="file.txt">\nclass MyClass:\n    def __init__(self):\n        self.x = 5\n        # the rest of the code stays the same\n</file_edit>',
        CLASS.replace("self.x = 1", "self.x = 5"),
    ),
    (
        "no changes here",
        CLASS,
        '<file_edit path="file.txt">\nclass MyClass:\n    def __init__(self):\n        # no changes here\n        self.w = 4\n\nprint(MyClass().z)\nprint(MyClass().x)\n</file_edit>',
        CLASS.replace("self.z = 3\n", "self.z = 3\n        self.w = 4\n"),
    ),
    (
        "removal in words",
        CLASS,
        '<file_edit path="file.txt">\nclass MyClass:\n    def __init__(self):\n        # no changes here\n        # self.z is removed\n\n# no changes below\n</file_edit>',
        CLASS.replace("        self.z = 3\n", ""),
    ),
    ("a deletion of a range", ABC, '<file_edit path="file.txt" start=2 end=2>\n</file_edit>', "a\nc\n"),
    ("CRLF", "a\r\nb\r\n", '<file_edit path="file.txt" start=2 end=2>\nx\ny\n</file_edit>', "a\r\nx\r\ny\r\n"),
    (
        "text around",
        ABC,
        'I will edit.\n<file_edit path="file.txt" start=1 end=1>\nA\n</file_edit>\nDone.',
        "A\nb\nc\n",
    ),
]
DRAFTS_REFUSED = [
    (
        "a new line below a marker, like the one above it",
        CLASS,
        '<file_edit path="file.txt">\n# no changes above\nprint(MyClass().y)\nprint(MyClass().x)\n</file_edit>',
    ),
    ("a long file without a range", LONG, '<file_edit path="file.txt">\nx\n</file_edit>'),
    ("a long file with the whole as range", LONG, '<file_edit path="file.txt" start=1 end=-1>\nx\n</file_edit>'),
    ("no end tag", ABC, '<file_edit path="file.txt">\nx\n'),
    ("no tag", ABC, "x\n"),
    ("no path", ABC, "<file_edit start=1 end=1>\nx\n</file_edit>"),
    ("inverted", ABC, '<file_edit path="file.txt" start=3 end=2>\nx\n</file_edit>'),
    ("beyond the end", ABC, '<file_edit path="file.txt" start=2 end=9>\nx\n</file_edit>'),
    ("begins at zero", ABC, '<file_edit path="file.txt" start=0 end=1>\nx\n</file_edit>'),
    ("not a number", ABC, '<file_edit path="file.txt" start=one end=2>\nx\n</file_edit>'),
]


def cases() -> Iterator[Case]:
    for group, form, name in (
        (PLANS, "line_plan", "plan"),
        (DRAFTS, "file_edit_draft", "draft"),
        (PATCHES, "patch", "patch"),
    ):
        for title, original, edit, expected in group:
            yield Case(f"{name}, {title}", "ordinary", form, original, edit, expected)
    for title, path, original, edit, expected in (*LAZY, *lazies.CASES):
        kind: Kind = "ordinary" if expected is not None else "refusal"
        yield Case(f"lazy, {title}", kind, "existing_code", original, edit, expected, path)
    for title, path, source, edit, expected in drafts.CASES:
        kind = "ordinary" if expected is not None else "refusal"
        yield Case(f"draft of {path}, {title}", kind, "file_edit_draft", source, edit, expected, path)
    for title, path, original, edit in LAZY_REFUSED:
        yield Case(f"refused lazy, {title}", "refusal", "existing_code", original, edit, None, path)
    for group, form, name in (
        (PLANS_REFUSED, "line_plan", "plan"),
        (DRAFTS_REFUSED, "file_edit_draft", "draft"),
        (PATCHES_REFUSED, "patch", "patch"),
    ):
        for title, original, edit in group:
            yield Case(f"refused {name}, {title}", "refusal", form, original, edit, None)
    for title, edit, expected in COMMANDS:
        yield Case(f"command, {title}", "ordinary", "command_block", None, edit, expected)
    for title, edit in COMMANDS_REFUSED:
        yield Case(f"refused command, {title}", "refusal", "command_block", None, edit, None)
