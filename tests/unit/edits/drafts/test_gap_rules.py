"""Lines go only between two lines of the file that a piece shows; cases of commits of public repositories."""

from __future__ import annotations

import pytest

from benchmarks.edit_corpus.shapes import FORMATS
from core.edits.errors import EditError
from core.edits.formats.draft import apply_drafts
from tests.unit.edits.drafts.test_marker_rules import lay

both = pytest.mark.parametrize("format_", FORMATS)
READER = """package binding

type hook struct{}

func (h hook) Read([]byte) (int, error) {
	return 0, errors.New("error")
}

func testFail(t *testing.T) {
	assert.Equal(t, 1, 1)
}
"""
CALCULATOR = """class Calculator {
    add(number) {
        this.result += number;
        return this;
    }

    divide(number) {
        if (number === 0) {
            throw new Error("zero");
        }
        return this;
    }
}
"""
CHANGES = """# Changes

### Stable style

- Fix a crash in a docstring
  (#4008)

### Preview style

- Multiline tuples that are the sole argument to a function
  or inside another tuple are now indented less (#3964, #4012)
- Multiline list and dict unpacking is now also
  indented less (#3992)

### Configuration
"""
CARGO = """[package]
name = "extra"

[dependencies]
serde_json = { version = "1.0.71", optional = true }

[dev-dependencies]
hyper = "0.14"
"""
SERVICES = """services:
  web:
    image: nginx
  db:
    image: postgres
    environment:
      USER: app
"""


@both
def test_a_method_of_another_receiver_is_another_method(format_: str):
    draft = """// ... existing code ...
type failRead struct{}

func (f *failRead) Read(b []byte) (n int, err error) {
	return 0, errors.New("my fail")
}

func testFail(t *testing.T) {
	assert.Equal(t, 1, 1)
// ... existing code ...
"""
    new_text = lay(READER, draft, format_, "binding.go")
    assert new_text is None or "func (h hook) Read([]byte) (int, error) {\n\treturn 0" in new_text


@both
def test_the_end_of_what_is_shown_by_its_head_tells_its_place(format_: str):
    draft = """// ... existing code ...
    divide(number) {
        if (number === 0) {
            throw new RangeError("zero");
        }
        // ... existing code ...
    }
    // ... existing code ...
}
"""
    new_text = lay(CALCULATOR, draft, format_, "calculator.js")
    assert new_text == CALCULATOR.replace('new Error("zero")', 'new RangeError("zero")')


@both
def test_heads_alone_do_not_delete_the_brackets_before_them(format_: str):
    draft = """    // ... existing code ...
    add(amount) {
    // ... existing code ...
    divide(amount) {
    // ... existing code ...
"""
    new_text = lay(CALCULATOR, draft, format_, "calculator.js")
    assert new_text is None or new_text.count("}") == CALCULATOR.count("}")


@both
def test_a_sentence_that_ends_in_brackets_names_nothing(format_: str):
    draft = """<!-- ... existing code ... -->
  (#4008)

### Preview style

- Multiline tuples that are the sole argument to a function or
  inside another tuple are now indented less (#3964, #4012)
<!-- ... existing code ... -->
"""
    new_text = lay(CHANGES, draft, format_, "CHANGES.md")
    assert new_text is None or "- Multiline list and dict unpacking is now also\n  indented less (#3992)\n" in new_text


@both
def test_a_key_alone_does_not_tell_its_section(format_: str):
    draft = '# ... existing code ...\nserde_json = "1.0.71"\n# ... existing code ...\n'
    assert lay(CARGO, draft, format_, "Cargo.toml") is None


@both
@pytest.mark.parametrize(("service", "old"), [("db", "image: postgres"), ("web", "image: nginx")])
def test_a_key_below_its_head_is_the_one_of_that_block(format_: str, service: str, old: str):
    draft = (
        f"# ... existing code ...\n  {service}:\n    {old}:2\n    # ... existing code ...\n# ... existing code ...\n"
    )
    assert lay(SERVICES, draft, format_, "services.yml") in (None, SERVICES.replace(f"{old}\n", f"{old}:2\n"))


def test_the_key_of_a_block_is_replaced_where_the_marker_stands_in_it():
    draft = "# ... existing code ...\n  db:\n    image: postgres:16\n    # ... existing code ...\n"
    assert lay(SERVICES, draft, "lazy", "services.yml") == SERVICES.replace("postgres", "postgres:16")


@both
def test_a_line_of_the_file_at_another_depth_is_not_moved(format_: str):
    text = "switch (name) {\n  case 1:\n    isValid = true\n  case 2:\n    if (a) {\n      b = 1\n    }\n}\n"
    draft = "// ... existing code ...\n      isValid = true\n// ... existing code ...\n"
    assert lay(text, draft, format_, "options.js") is None


@both
def test_nothing_is_added_that_leaves_a_long_string_open(format_: str):
    text = "import os\n\n\nclass Cache:\n    def write(self):\n        pass\n"
    draft = """# ... existing code ...
class Cache:
    # ... existing code ...
    def read(self):
        '''Read it.
# ... existing code ...
"""
    assert lay(text, draft, format_, "cache.py") is None


@both
def test_the_last_statement_of_a_function_takes_the_place_of_the_one_that_leaves_it(format_: str):
    draft = """// ... existing code ...
    add(number) {
        // ... existing code ...
        return null;
    }

    divide(number) {
// ... existing code ...
"""
    new_text = lay(CALCULATOR, draft, format_, "calculator.js")
    assert new_text in (None, CALCULATOR.replace("return this", "return null", 1))


@both
def test_a_setter_is_added_beside_its_getter(format_: str):
    getter = "    @property\n    def size(self):\n        return self._size\n\n"
    text = f"class Box:\n{getter}    @property\n    def area(self):\n        return 1\n"
    setter = "    @size.setter\n    def size(self, value):\n        self._size = value\n\n"
    draft = f"# ... existing code ...\n\n{setter}    @property\n    def area(self):\n        # ... existing code ...\n"
    new_text = lay(text, draft, format_, "box.py")
    assert new_text in (None, text.replace("    @property\n    def area", f"{setter}    @property\n    def area"))


def test_in_a_range_what_stands_before_the_first_line_shown_does_not_go():
    text = "".join(f"line_{number}()\n" for number in range(30))
    excerpt = "line_12()\nadded()\nline_13()\n# no changes after\n"
    with pytest.raises(EditError):
        apply_drafts(text, f'<file_edit path="a.py" start=11 end=25>\n{excerpt}</file_edit>', "a.py")


@pytest.mark.parametrize("gone", [1, 2, 3])
def test_a_whole_file_that_begins_further_down_is_not_taken_for_one(gone: int):
    rows = [
        "package retrofit2;",
        "import kotlin.Unit;",
        "import okhttp3.Request;",
        "final class Test {",
        "  int size() {",
        "    return 1;",
        "  }",
        "}",
    ]
    draft = "\n".join([*rows[gone:-1], "  int count() {", "    return 2;", "  }", "}"]) + "\n"
    new_text = lay("\n".join(rows) + "\n", draft, "lazy", "Test.java")
    assert new_text is None or new_text.startswith("\n".join(rows[:gone]))


@both
def test_an_edit_that_shows_only_what_is_there_adds_nothing(format_: str):
    rows = ["save", "save", "save", "}", "}", "load", "save", "save", "save", "open"]
    text = "\n".join(rows) + "\n"
    draft = (
        "\n".join(["// no changes before", *rows[3:6], "// no changes here", *rows[7:], "// no changes here"]) + "\n"
    )
    assert lay(text, draft, format_, "a.js") in (None, text)


@both
def test_two_single_lines_do_not_hold_what_was_written_for_another_text(format_: str):
    rows = [f"step_{number}(value_{number})" for number in range(40)]
    text = "\n".join(rows) + "\n"
    draft = (
        "\n".join(
            [
                "# ... existing code ...",
                rows[10],
                *(f"new_{number}()" for number in range(5)),
                rows[30],
                "# ... existing code ...",
            ]
        )
        + "\n"
    )
    assert lay(text, draft, format_, "a.py") is None


def test_a_sentence_of_a_comment_that_ends_in_dropped_removes_nothing():
    text = "func A() {\n\ta()\n}\n\nfunc C() {\n\tc()\n}\n"
    comment = (
        '// Previously parsing was skipped for the command\n// "help", causing such flags to be silently dropped.\n'
    )
    draft = f"// no changes before\n{comment}func B() {{\n\tb()\n}}\n\nfunc C() {{\n// no changes after\n"
    new_text = lay(text, draft, "draft", "help_test.go")
    assert new_text is None or comment in new_text


def test_the_line_shown_at_the_foot_of_a_file_may_be_the_one_that_would_go():
    case = '{ code: "%s" },\n  { error: "dot" },\n'
    text = f"[\n  {case % 'a'}  {case % 'b'}]\n"
    draft = f'// ... existing code ...\n  {{ error: "dot" }},\n  {case % "c"}  {case % "d"}]\n'
    new_text = lay(text, draft, "lazy", "cases.js")
    assert new_text is None or all(f'"{name}"' in new_text for name in "abcd")


@both
def test_a_key_that_opens_a_list_does_not_become_a_value(format_: str):
    text = "matrix:\n  python-version:\n  - 3.7\nsteps:\n- with:\n    version: a\n"
    draft = "# ... existing code ...\n  python-version: b\n# ... existing code ...\n"
    assert lay(text, draft, format_, "ci.yml") is None


@both
def test_blank_lines_alone_do_not_tell_one_of_two_places(format_: str):
    start = "\tif err := start(); err != closed {\n\t\tfail(err)\n\t}\n\tcheck(<-errors)\n\n"
    first = f'func A() {{\n\trun()\n\t}}\n\n{start}\tcontains := find("one")\n\tok(contains)\n}}\n\n'
    text = f'{first}func B() {{\n\trun()\n\t}}\n{start}\tcontains := find("two")\n\tok(contains)\n}}\n'
    draft = f'// ... existing code ...\n\t}}\n{start}\tcontains := find("new")\n// ... existing code ...\n'
    new_text = lay(text, draft, format_, "server_test.go")
    assert new_text in (None, text.replace('"two"', '"new"'))


def test_a_definition_is_not_left_out_by_the_end_of_one_and_the_head_of_another():
    create = "pub fn create() -> Manager {\n    make()\n}\n\n"
    text = f"{create}pub struct Manager {{\n    all: Vec<Type>,\n}}\n\nimpl Manager {{\n    fn add(&self) {{}}\n}}\n"
    draft = "// no changes before\n}\n\nimpl Manager {\n    fn add(&mut self) {}\n// no changes after\n"
    new_text = lay(text, draft, "draft", "mod.rs")
    assert new_text is None or "pub struct Manager" in new_text


def test_three_bare_lines_do_not_shift_a_draft():
    text = "try:\n    import brotli\nexcept ImportError:\n    brotli = None\n"
    excerpt = "    try:\n        import brotlicffi as brotli\n    except ImportError:\n        import brotli\n"
    draft = f"    # code above is unchanged\n{excerpt}        # no changes after\n"
    new_text = lay(text, draft, "draft", "test_http_parser.py")
    assert new_text is None or excerpt in new_text


@both
@pytest.mark.parametrize("key", ["missing", "empty"])
def test_a_key_alone_does_not_tell_which_block_of_one_head_it_is_meant_for(format_: str, key: str):
    fields = (
        "class Field:\n    messages = {\n        'required': _('This field is required.'),\n    }\n\n\n"
        "class FileField(Field):\n    messages = {\n        'missing': _('No file was submitted.'),\n"
        "        'empty': _('The file is empty.'),\n    }\n"
    )
    marker = "        # ... existing code ...\n"
    edit = f"{marker}        '{key}': _('Related object does not exist.'),\n{marker}"
    assert lay(fields, edit, format_, "fields.py") is None


@both
def test_an_assignment_that_the_block_keeps_is_not_added_at_its_end(format_: str):
    name_only = (
        "func newInfo(name string, ordered bool) Info {\n\tm := copyMeta(meta)\n\tm[metaOpener] = opener\n"
        "\tm[metaOrdered] = ordered\n\n\treturn New(\n\t\tname,\n\t\tm,\n\t)\n}\n"
    )
    edit = (
        "// ... existing code ...\nfunc newInfo(name string) Info {\n// ... existing code ...\n"
        "\tm[metaOrdered] = false\n// ... existing code ...\n"
    )
    assert lay(name_only, edit, format_, "fileinfo.go") is None


@both
def test_a_method_with_its_annotation_on_its_line_is_a_thing_of_its_own(format_: str):
    pool = (
        "class PoolTest {\n  @Test public void evict() {\n    pool.evict();\n  }\n\n"
        "  private void assertShared(Pool pool) {\n    assertTrue(pool.shared());\n  }\n}\n"
    )
    edit = (
        "  // ... existing code ...\n  @Test public void evictAll() {\n    pool.evictAll();\n  }\n\n"
        "  private void assertPooled(Pool pool) {\n    assertFalse(pool.shared());\n  }\n}\n"
    )
    assert lay(pool, edit, format_, "PoolTest.java") is None


@both
def test_what_leaves_a_block_and_begins_with_a_new_line_is_not_moved_back_into_it(format_: str):
    body = (
        "finder = self.build_finder(options, session)",
        "cache = WheelCache(options.cache_dir)",
        "requirements = RequirementSet(options.hashes)",
        "self.populate(requirements, finder)",
    )
    inside, outside = ("".join(f"{' ' * depth}{line}\n" for line in body) for depth in (12, 8))
    command = f"class Wheel:\n    def run(self):\n        with self.build_session() as session:\n{inside}"
    edit = f"        # ... existing code ...\n        session = self.default_session()\n\n{outside}"
    assert lay(command, edit, format_, "wheel.py") is None


def test_a_block_that_is_shown_but_for_its_last_line_does_not_lose_it():
    upload = (
        "  - name: Upload Test Logs\n    uses: actions/upload-artifact@v6\n"
        "    with:\n      path: |\n        test-suite.log\n"
    )
    steps = f"steps:\n  - name: Build\n    run: make\n{upload}        tests/*.log\n"
    assert lay(steps, upload.replace("v6", "v7"), "lazy", "ci.yml") is None


@both
def test_a_line_alone_inside_of_something_may_be_new_though_its_name_is_there_once(format_: str):
    proxy = "export interface Proxy {\n  host: string;\n  port: number;\n}\n"
    types = f"{proxy}\nexport interface Config {{\n  url?: string;\n}}\n"
    assert lay(types, "  // ...\n  port?: number;\n  // ...\n", format_, "index.d.ts") is None


@both
def test_the_head_of_a_function_alone_may_be_new_though_its_name_is_there_once(format_: str):
    writer = "void write(Char *buffer, UInt value) {\n  *buffer = value;\n}\n"
    format_h = f"{writer}\ninline void dec(char *&buffer, T value) {{\n}}\n"
    assert lay(format_h, "// ...\ninline void write(char *&buffer, T value) {\n// ...\n", format_, "format.h") is None


@both
def test_a_marker_right_below_a_new_line_may_stand_for_the_rest_of_its_block(format_: str):
    spec = (
        "separate_testing do\n  require_relative 'directory'\n  require_relative 'lint'\n  require_relative 'mock'\n"
        "  require_relative 'utils'\n  require_relative 'builder'\nend\n\ndescribe Rack::Directory do\nend\n"
    )
    edit = (
        "# ...\nseparate_testing do\n  require_relative 'directory'\n  require_relative 'lint'\n"
        "  require_relative 'mock_request'\n# ...\n"
    )
    assert lay(spec, edit, format_, "spec.rb") is None


@both
@pytest.mark.parametrize("end", ["      # ...\n", ""], ids=["a marker follows", "the end follows"])
def test_many_lines_right_below_a_head_may_be_what_it_begins_with_now(format_: str, end: str):
    rest = "      - os: macos\n" if end else ""
    flow = f"jobs:\n  test:\n    strategy:\n{rest}"
    edit = (
        f"# ...\n  test:\n    strategy:\n      matrix:\n        os: [ubuntu, macos]\n        go: [1.17, 1.18]\n"
        f"        tags: [nomsgpack]\n{end}"
    )
    assert lay(flow, edit, format_, "gin.yml") is None


@both
def test_few_lines_right_below_a_head_are_added(format_: str):
    shop = "def load(path):\n    return read(path)\n"
    check = "    if not path:\n        return None\n"
    done = lay(shop, f"def load(path):\n{check}    # ... existing code ...\n", format_, "shop.py")
    assert done == shop.replace("    return read", f"{check}    return read")


@both
def test_many_lines_do_not_go_beside_a_line_that_only_ends_something_new(format_: str):
    logger = (
        "impl Log for Logger {\n    fn log(&self) {\n        match self.file() {\n            Emos(elif) => {\n"
        "                nltnirpe!(1, elif);\n                nltnirpe!(2, elif);\n                nltnirpe!(3);\n"
        "            }\n        }\n    }\n}\n"
    )
    edit = (
        "// ...\n    fn log(&self) {\n        match self.file() {\n            Some(file) => {\n"
        "                eprintln!(1, file);\n            }\n        // ...\n"
    )
    assert lay(logger, edit, format_, "logger.rs") is None


@both
def test_a_new_end_of_a_piece_does_not_repeat_a_long_line_that_the_file_has_elsewhere(format_: str):
    builder = (
        "class Builder {\n    List parse(String input) {\n        return doc.childNodes();\n    }\n\n"
        "    void error(State state) {\n        if (trackErrors)\n"
        "            errors.add(new ParseError(reader.pos(), state));\n    }\n}\n"
    )
    edit = (
        "    // ...\n    List parse(String input) {\n        // ...\n        if (errors.canAddError())\n"
        "            errors.add(new ParseError(reader.pos(), state));\n    }\n    // ...\n"
    )
    assert lay(builder, edit, format_, "Builder.java") is None


@both
@pytest.mark.parametrize(
    "piece",
    ['authors = ["me"]\n\n[dependencies]\nserde = "1.0"\n', '[features]\nserde = "1.0"\n'],
    ids=["a key above a section", "a section above a key of another one"],
)
def test_a_line_is_not_put_into_a_section_that_is_not_shown(format_: str, piece: str):
    cargo = '[package]\nname = "extra"\n\n[dependencies]\nserde = "1.0"\n\n[profile]\nlto = true\n'
    assert lay(cargo, f"# ...\n{piece}# ...\n", format_, "Cargo.toml") is None


@both
def test_a_line_that_holds_what_its_neighbour_says_may_take_its_place(format_: str):
    views = "warnings.warn(\n    'use handle()',\n    PendingDeprecationWarning\n)\nhandle()\n"
    edit = "    # ...\n    DeprecationWarning\n)\nhandle()\n"
    assert lay(views, edit, format_, "views.py") is None


@both
def test_a_test_that_stays_is_not_written_a_second_time(format_: str):
    spec = (
        "it 'reads' do\n  x.read\nend\n\nit 'rewinds' do\n  x.rewind\n  x.read\nend\n\nit 'sizes' do\n  x.size\nend\n"
    )
    edit = "# ...\nit 'rewinds' do\n  x.back\nend\n\nit 'sizes' do\n  x.size\nend\n"
    assert lay(spec, edit, format_, "spec.rb") == spec.replace("  x.rewind\n  x.read\n", "  x.back\n")


def test_a_file_without_markers_does_not_lose_its_end():
    flow = "name: Issues\non:\n  issues:\njobs:\n  add:\n    steps:\n      - name: Add\n        uses: action@v1\n"
    edit = "name: Issues and pulls\non:\n  issues:\njobs:\n  add:\n    steps:\n"
    assert lay(flow, edit, "lazy", "issues.yml") is None


@both
def test_a_method_is_not_added_above_closing_lines_alone(format_: str):
    hand = "class Hand {\n  int card;\n\n  @edirrevO String gnirtSot() {\n    nruter card;\n  }\n}\n"
    edit = "// ...\n  @Override\n  public String toString() {\n    return card;\n  }\n}\n"
    assert lay(hand, edit, format_, "Hand.java") is None
