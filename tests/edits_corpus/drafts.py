"""Drafts: (name, path, original, edit, expected; None where it has to be refused)."""

# ruff: noqa: E501  (a case is a line)
from __future__ import annotations

from tests.edits_corpus.case import swap

SHAPES = """import math


class Circle:
    def __init__(self, r):
        self.r = r
        self.name = "circle"

    def area(self):
        return math.pi * self.r ** 2

    def describe(self):
        print("circle")
        print(self.r)


class Square:
    def __init__(self, a):
        self.a = a

    def area(self):
        return self.a * self.a


def total(shapes):
    result = 0
    for shape in shapes:
        result += shape.area()
    return result
"""
TIMER = """class Timer {
  start() {
    this.t = Date.now();
  }

  stop() {
    clearInterval(this.id);
    return Date.now() - this.t;
  }

  reset() {
    this.t = 0;
  }
}

export default Timer;
"""
PAGE = "<main>\n  <h1>Title</h1>\n  <p>one</p>\n  <p>two</p>\n</main>\n"
CONF = "host: local\nport: 80\ndebug: true\nlevel: info\n"
FIVE = "one\ntwo\nthree\nfour\nfive\n"
EDGE = "".join(f"v{number} = {number}\n" for number in range(1, 301))
OVER = EDGE + "v301 = 301\n"


def draft(body: str, attributes: str = "", path: str = "file.txt") -> str:
    return f'<file_edit path="{path}"{attributes}>\n{body}</file_edit>'


def ranged(body: str, start: int, end: int) -> str:
    return draft(body, f" start={start} end={end}")


Drafted = tuple[str, str, str | None, str, str | None]
CASES: list[Drafted] = [
    ("the first line", "file.txt", FIVE, ranged("ONE\n", 1, 1), swap(FIVE, "one", "ONE")),
    ("the last line", "file.txt", FIVE, ranged("FIVE\n", 5, 5), swap(FIVE, "five", "FIVE")),
    ("two lines by three", "file.txt", FIVE, ranged("a\nb\nc\n", 2, 3), "one\na\nb\nc\nfour\nfive\n"),
    ("three lines by one", "file.txt", FIVE, ranged("x\n", 2, 4), "one\nx\nfive\n"),
    ("from a line to the end", "file.txt", FIVE, ranged("x\n", 4, -1), "one\ntwo\nthree\nx\n"),
    ("from the start, which is left out", "file.txt", FIVE, draft("x\n", " end=2"), "x\nthree\nfour\nfive\n"),
    ("to the end, which is left out", "file.txt", FIVE, draft("x\n", " start=3"), "one\ntwo\nx\n"),
    ("the last line of an open file", "file.txt", FIVE[:-1], ranged("FIVE\n", 5, 5), swap(FIVE, "five", "FIVE")[:-1]),
    (
        "a line in the middle of an open file",
        "file.txt",
        FIVE[:-1],
        ranged("TWO\n", 2, 2),
        swap(FIVE, "two", "TWO")[:-1],
    ),
    ("an empty line in a range", "file.txt", FIVE, ranged("two\n\nthree\n", 2, 3), "one\ntwo\n\nthree\nfour\nfive\n"),
    (
        "an empty line at the end of a range",
        "file.txt",
        FIVE,
        ranged("two\n\n", 2, 2),
        "one\ntwo\n\nthree\nfour\nfive\n",
    ),
    (
        "an empty line at the start of a range",
        "file.txt",
        FIVE,
        ranged("\ntwo\n", 2, 2),
        "one\n\ntwo\nthree\nfour\nfive\n",
    ),
    ("dollars and backslashes", "file.txt", FIVE, ranged("$1 \\1 \\n\n", 3, 3), swap(FIVE, "three", "$1 \\1 \\n")),
    (
        "entities stay",
        "file.txt",
        FIVE,
        ranged("a &lt; b &amp;&amp; c\n", 3, 3),
        swap(FIVE, "three", "a &lt; b &amp;&amp; c"),
    ),
    (
        "angles stay",
        "file.txt",
        FIVE,
        ranged("if (a < b && c > d) {\n", 3, 3),
        swap(FIVE, "three", "if (a < b && c > d) {"),
    ),
    ("an append of two lines", "file.txt", FIVE, ranged("six\nseven\n", -1, -1), FIVE + "six\nseven\n"),
    ("an append with an empty line before", "file.txt", FIVE, ranged("\nsix\n", -1, -1), FIVE + "\nsix\n"),
    ("an append with quotes", "file.txt", FIVE, draft("six\n", ' start="-1" end="-1"'), FIVE + "six\n"),
    ("an append to a long file", "file.txt", OVER, ranged("x = 1\n", -1, -1), OVER + "x = 1\n"),
    ("an append with CRLF", "file.txt", "a\r\nb\r\n", ranged("c\nd\n", -1, -1), "a\r\nb\r\nc\r\nd\r\n"),
    ("an append to an empty file", "file.txt", "", ranged("a\n", -1, -1), "a\n"),
    ("an append to a missing file", "new.py", None, draft("a = 1\n", " start=-1 end=-1", "new.py"), "a = 1\n"),
    ("a missing file with a range", "new.py", None, draft("a = 1\n", " start=1 end=-1", "new.py"), "a = 1\n"),
    (
        "a missing file of several parts",
        "new.py",
        None,
        draft("import os\n\n\ndef f():\n    pass\n", "", "new.py"),
        "import os\n\n\ndef f():\n    pass\n",
    ),
    ("a file of 300 lines without a range", "file.txt", EDGE, draft("x = 1\n"), "x = 1\n"),
    ("a file of 301 lines without a range", "file.txt", OVER, draft("x = 1\n"), None),
    (
        "a file of 301 lines with comments and no range",
        "file.txt",
        OVER,
        draft("# no changes before\nv301 = 0\n"),
        None,
    ),
    ("a long file, its last line", "file.txt", OVER, ranged("v301 = 0\n", 301, 301), swap(OVER, "= 301", "= 0")),
    (
        "a long file from a line to the end",
        "file.txt",
        OVER,
        ranged("x = 1\n", 300, -1),
        OVER[: OVER.index("v300")] + "x = 1\n",
    ),
    (
        "no changes before",
        "a.py",
        SHAPES,
        draft(
            "# no changes before\ndef total(shapes):\n    return sum(shape.area() for shape in shapes)\n", "", "a.py"
        ),
        SHAPES[: SHAPES.index("    result = 0")] + "    return sum(shape.area() for shape in shapes)\n",
    ),
    (
        "no changes after",
        "a.py",
        SHAPES,
        draft("import math\nimport os\n# no changes after\n", "", "a.py"),
        swap(SHAPES, "import math\n", "import math\nimport os\n"),
    ),
    (
        "no changes on both sides",
        "a.py",
        SHAPES,
        draft(
            '# no changes before\n    def describe(self):\n        print(f"circle of {self.r}")\n\n\nclass Square:\n# no changes after\n',
            "",
            "a.py",
        ),
        swap(SHAPES, '        print("circle")\n        print(self.r)\n', '        print(f"circle of {self.r}")\n'),
    ),
    (
        "no changes inside of a method",
        "a.py",
        SHAPES,
        draft("# no changes before\ndef total(shapes):\n    # no changes here\n    return round(result)\n", "", "a.py"),
        swap(SHAPES, "return result", "return round(result)"),
    ),
    (
        "no changes in one of two classes",
        "a.py",
        SHAPES,
        draft(
            'import math\n\n\nclass Circle:\n    # no changes here\n\n\nclass Square:\n    def __init__(self, a):\n        self.a = a\n        self.name = "square"\n\n    # no changes below\n',
            "",
            "a.py",
        ),
        swap(SHAPES, "        self.a = a\n", '        self.a = a\n        self.name = "square"\n'),
    ),
    (
        "a range with no changes in it",
        "a.py",
        SHAPES,
        draft(
            'class Circle:\n    def __init__(self, r):\n        # no changes here\n        self.name = "round"\n\n    # no changes below\n',
            " start=4 end=14",
            "a.py",
        ),
        swap(SHAPES, '"circle"\n\n', '"round"\n\n'),
    ),
    (
        "what is removed is told",
        "a.py",
        SHAPES,
        draft(
            '# no changes before\n    def describe(self):\n        # print("circle") is removed\n        print(self.r)\n# no changes after\n',
            "",
            "a.py",
        ),
        swap(SHAPES, '        print("circle")\n', ""),
    ),
    (
        "what is removed is told, the verb first",
        "a.py",
        SHAPES,
        draft(
            "import math\n\n\nclass Circle:\n    def __init__(self, r):\n        self.r = r\n        # removed self.name\n\n    # rest stays the same\n",
            "",
            "a.py",
        ),
        swap(SHAPES, '        self.name = "circle"\n', ""),
    ),
    (
        "the words: unchanged",
        "a.js",
        TIMER,
        draft(
            "class Timer {\n  // unchanged\n\n  reset() {\n    this.t = Date.now();\n  }\n}\n\n// unchanged\n",
            "",
            "a.js",
        ),
        swap(TIMER, "this.t = 0", "this.t = Date.now()"),
    ),
    (
        "the words: no changes needed here",
        "a.js",
        TIMER,
        draft(
            "// no changes needed here\n  reset() {\n    this.t = null;\n  }\n}\n// no changes needed here\n",
            "",
            "a.js",
        ),
        swap(TIMER, "this.t = 0", "this.t = null"),
    ),
    (
        "the words: above stays the same",
        "a.js",
        TIMER,
        draft("// everything above stays the same\n\nexport { Timer };\nexport default Timer;\n", "", "a.js"),
        swap(TIMER, "export default", "export { Timer };\nexport default"),
    ),
    (
        "the words: code before remains the same",
        "a.js",
        TIMER,
        draft(
            "// the code before remains the same\n  stop() {\n    clearInterval(this.id);\n    return 0;\n  }\n// the code after remains the same\n",
            "",
            "a.js",
        ),
        swap(TIMER, "Date.now() - this.t", "0"),
    ),
    (
        "the words: same as before",
        "a.js",
        TIMER,
        draft(
            "class Timer {\n  /* same as before */\n\n  stop() {\n    return Date.now() - this.t;\n  }\n\n  /* same as before */\n}\n\nexport default Timer;\n",
            "",
            "a.js",
        ),
        swap(TIMER, "    clearInterval(this.id);\n", ""),
    ),
    (
        "the words: no changes up to here",
        "conf.yml",
        CONF,
        draft("# no changes up to here\ndebug: false\n# no changes from here\n", "", "conf.yml"),
        swap(CONF, "true", "false"),
    ),
    (
        "the words: not modified",
        "conf.yml",
        CONF,
        draft("# lines above are not modified\nport: 8080\n# lines below are not modified\n", "", "conf.yml"),
        swap(CONF, "80", "8080"),
    ),
    (
        "the words: existing code",
        "conf.yml",
        CONF,
        draft("# ... existing code ...\nlevel: debug\n", "", "conf.yml"),
        swap(CONF, "info", "debug"),
    ),
    (
        "markup",
        "a.html",
        PAGE,
        draft("<main>\n  <!-- no changes here -->\n  <p>two</p>\n  <p>three</p>\n</main>\n", "", "a.html"),
        swap(PAGE, "<p>two</p>\n", "<p>two</p>\n  <p>three</p>\n"),
    ),
    (
        "CRLF and no changes",
        "conf.yml",
        CONF.replace("\n", "\r\n"),
        draft("# no changes before\nlevel: debug\n", "", "conf.yml"),
        swap(CONF, "info", "debug").replace("\n", "\r\n"),
    ),
    (
        "an open file and no changes",
        "conf.yml",
        CONF[:-1],
        draft("# no changes before\nlevel: debug\n", "", "conf.yml"),
        swap(CONF, "info", "debug")[:-1],
    ),
    (
        "a comment of the file that says so",
        "a.py",
        "# no changes here\nx = 1\ny = 2\n",
        draft("# no changes here\nx = 1\ny = 3\n", "", "a.py"),
        "# no changes here\nx = 1\ny = 3\n",
    ),
    (
        "two drafts of ranges of one file",
        "file.txt",
        FIVE,
        ranged("ONE\n", 1, 1) + "\n" + ranged("FIVE\n", 5, 5),
        swap(swap(FIVE, "one", "ONE"), "five", "FIVE"),
    ),
    (
        "two drafts, the second of which counts in the old file",
        "file.txt",
        FIVE,
        ranged("a\nb\nc\n", 1, 1) + "\n" + ranged("FOUR\n", 4, 4),
        "a\nb\nc\ntwo\nthree\nFOUR\nfive\n",
    ),
    ("two drafts of ranges that overlap", "file.txt", FIVE, ranged("a\n", 1, 3) + "\n" + ranged("b\n", 2, 4), None),
    ("a path within another", "src/a.py", "x = 1\n", draft("x = 2\n", " start=1 end=1", "/repo/src/a.py"), "x = 2\n"),
    (
        "a fence around the tag",
        "file.txt",
        FIVE,
        "```xml\n" + ranged("ONE\n", 1, 1) + "\n```",
        swap(FIVE, "one", "ONE"),
    ),
    (
        "a fence inside of the tag",
        "file.txt",
        FIVE,
        ranged("```\nONE\n```\n", 1, 1),
        swap(FIVE, "one", "```\nONE\n```"),
    ),
    (
        "body on the line of the tag",
        "file.txt",
        FIVE,
        '<file_edit path="file.txt" start=1 end=1>ONE</file_edit>',
        swap(FIVE, "one", "ONE"),
    ),
    ("start without a number", "file.txt", FIVE, draft("x\n", " start= end=2"), None),
    ("an end below minus one", "file.txt", FIVE, ranged("x\n", 1, -2), None),
    ("a start of minus one and an end", "file.txt", FIVE, ranged("x\n", -1, 3), None),
    ("an end one beyond the file", "file.txt", FIVE, ranged("x\n", 4, 6), None),
    (
        "comments that fit nothing",
        "a.py",
        SHAPES,
        draft("# no changes before\n    def volume(self):\n        return 0\n# no changes after\n", "", "a.py"),
        None,
    ),
    (
        "a draft that begins below the first lines",
        "a.py",
        SHAPES,
        draft(
            "class Circle:\n    def __init__(self, r):\n        self.r = r\n\n    # rest stays the same\n", "", "a.py"
        ),
        None,
    ),
]
