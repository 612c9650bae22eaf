"""Lazy edits of Java, C, C++ and C# files."""

# ruff: noqa: E501  (a case is a line)
from __future__ import annotations

from tests.edits_corpus.case import Row, swap

JAVA = """package shop;

import java.util.ArrayList;
import java.util.List;

public class Order {
    private final List<String> lines = new ArrayList<>();

    public void add(String line) {
        lines.add(line);
    }

    public void add(String line, int times) {
        for (int i = 0; i < times; i++) {
            lines.add(line);
        }
    }

    @Override
    public String toString() {
        return String.join(", ", lines);
    }

    static class Builder {
        private final Order order = new Order();

        Builder line(String line) {
            order.add(line);
            return this;
        }
    }
}
"""
C = """#include <stdio.h>
#include <stdlib.h>

#define SIZE 16

static int count = 0;

/* Doubles a number. */
int twice(int x)
{
    return 2 * x;
}

int main(int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        printf("%s\\n", argv[i]);
        count++;
    }
    return 0;
}
"""
CPP = """#include <vector>

namespace geo {

struct Point {
    double x;
    double y;
};

class Path {
public:
    void add(Point p);
    double length() const;

private:
    std::vector<Point> points_;
};

void Path::add(Point p) {
    points_.push_back(p);
}

double Path::length() const {
    return points_.size();
}

}  // namespace geo
"""
CSHARP = """using System;

namespace Shop
{
    public class Item
    {
        public string Name { get; set; }

        public decimal Price { get; set; }

        public decimal Total(int count)
        {
            return Price * count;
        }
    }
}
"""
MARK = "// ... existing code ...\n"

CASES: list[Row] = [
    (
        "java, one of two overloads",
        "Order.java",
        JAVA,
        f"{MARK}\npublic class Order {{\n    {MARK}\n    public void add(String line, int times) {{\n        lines.addAll(Collections.nCopies(times, line));\n    }}\n\n    {MARK}}}\n",
        swap(
            JAVA,
            "        for (int i = 0; i < times; i++) {\n            lines.add(line);\n        }\n",
            "        lines.addAll(Collections.nCopies(times, line));\n",
        ),
    ),
    (
        "java, the other overload",
        "Order.java",
        JAVA,
        f"{MARK}\npublic class Order {{\n    {MARK}\n    public void add(String line) {{\n        lines.add(line.trim());\n    }}\n\n    {MARK}}}\n",
        swap(JAVA, "        lines.add(line);\n    }\n\n", "        lines.add(line.trim());\n    }\n\n"),
    ),
    (
        "java, an import and a method before another",
        "Order.java",
        JAVA,
        f"package shop;\n\nimport java.util.ArrayList;\nimport java.util.Collections;\nimport java.util.List;\n\npublic class Order {{\n    {MARK}\n"
        f"    public List<String> lines() {{\n        return Collections.unmodifiableList(lines);\n    }}\n\n    @Override\n    public String toString() {{\n        {MARK}    }}\n\n    {MARK}}}\n",
        swap(
            swap(JAVA, "import java.util.List;\n", "import java.util.Collections;\nimport java.util.List;\n"),
            "    @Override\n",
            "    public List<String> lines() {\n        return Collections.unmodifiableList(lines);\n    }\n\n    @Override\n",
        ),
    ),
    (
        "java, a method of an inner class",
        "Order.java",
        JAVA,
        f"{MARK}\npublic class Order {{\n    {MARK}\n    static class Builder {{\n        {MARK}\n        Order build() {{\n            return order;\n        }}\n    }}\n}}\n",
        swap(
            JAVA,
            "            return this;\n        }\n",
            "            return this;\n        }\n\n        Order build() {\n            return order;\n        }\n",
        ),
    ),
    (
        "java, a method with its annotation and nothing else",
        "Order.java",
        JAVA,
        '    @Override\n    public String toString() {\n        return "Order " + String.join(", ", lines);\n    }\n',
        swap(JAVA, 'return String.join(", "', 'return "Order " + String.join(", "'),
    ),
    (
        "java, a doc comment and a field",
        "Order.java",
        JAVA,
        f"{MARK}\n/** What a customer wants. */\npublic class Order {{\n    private final List<String> lines = new ArrayList<>();\n    private String note;\n\n    {MARK}}}\n",
        swap(
            swap(JAVA, "public class Order", "/** What a customer wants. */\npublic class Order"),
            "new ArrayList<>();\n",
            "new ArrayList<>();\n    private String note;\n",
        ),
    ),
    (
        "c, a function with its brace on its own line",
        "main.c",
        C,
        f"{MARK}\nint twice(int x)\n{{\n    return x + x;\n}}\n\n{MARK}",
        swap(C, "2 * x", "x + x"),
    ),
    (
        "c, a function and nothing else",
        "main.c",
        C,
        "int twice(int x)\n{\n    return x << 1;\n}\n",
        swap(C, "2 * x", "x << 1"),
    ),
    (
        "c, an include and a define",
        "main.c",
        C,
        "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\n#define SIZE 32\n\n/* ... rest of file ... */\n",
        swap(swap(C, "<stdlib.h>\n", "<stdlib.h>\n#include <string.h>\n"), "SIZE 16", "SIZE 32"),
    ),
    (
        "c, a function between two",
        "main.c",
        C,
        f"{MARK}\nint twice(int x)\n{{\n    {MARK}}}\n\nint thrice(int x)\n{{\n    return 3 * x;\n}}\n\nint main(int argc, char **argv)\n{{\n    {MARK}}}\n",
        swap(C, "int main(", "int thrice(int x)\n{\n    return 3 * x;\n}\n\nint main("),
    ),
    (
        "c, a statement inside a loop",
        "main.c",
        C,
        f"{MARK}\nint main(int argc, char **argv)\n{{\n    for (int i = 0; i < argc; i++) {{\n        if (!argv[i])\n            break;\n        {MARK}    }}\n    {MARK}}}\n",
        swap(C, '        printf("', '        if (!argv[i])\n            break;\n        printf("'),
    ),
    (
        "cpp, a member declared and defined",
        "path.cpp",
        CPP,
        f"{MARK}\nclass Path {{\npublic:\n    {MARK}    double length() const;\n    void clear();\n\nprivate:\n    {MARK}}};\n\n{MARK}\n"
        f"double Path::length() const {{\n    {MARK}}}\n\nvoid Path::clear() {{\n    points_.clear();\n}}\n\n}}  // namespace geo\n",
        None,
    ),
    (
        "cpp, a field of a struct",
        "path.cpp",
        CPP,
        f"{MARK}\nstruct Point {{\n    {MARK}    double z;\n}};\n\n{MARK}",
        swap(CPP, "    double y;\n", "    double y;\n    double z;\n"),
    ),
    (
        "cpp, a definition and nothing else",
        "path.cpp",
        CPP,
        "double Path::length() const {\n    return points_.size() - 1;\n}\n",
        swap(CPP, "points_.size()", "points_.size() - 1"),
    ),
    (
        "csharp, a method in a class in a namespace",
        "Item.cs",
        CSHARP,
        f"{MARK}\nnamespace Shop\n{{\n    public class Item\n    {{\n        {MARK}\n        public decimal Total(int count)\n        {{\n            if (count < 0)\n"
        "                throw new ArgumentException();\n            return Price * count;\n        }\n    }\n}\n",
        swap(
            CSHARP,
            "            return Price",
            "            if (count < 0)\n                throw new ArgumentException();\n            return Price",
        ),
    ),
    (
        "csharp, a property at the end",
        "Item.cs",
        CSHARP,
        f"{MARK}\n    public class Item\n    {{\n        {MARK}\n        public bool Free => Price == 0;\n    }}\n}}\n",
        swap(CSHARP, "* count;\n        }\n", "* count;\n        }\n\n        public bool Free => Price == 0;\n"),
    ),
]
