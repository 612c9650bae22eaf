"""Lazy edits, a last set written before it was run."""

# ruff: noqa: E501  (a case is a line)
from __future__ import annotations

from tests.edits_corpus.case import Row, swap

QUEUE = """package queue

// Queue keeps jobs.
type Queue struct {
	jobs []Job
}

// Push adds a job.
func (q *Queue) Push(j Job) {
	q.jobs = append(q.jobs, j)
}

// Pop takes the first job.
func (q *Queue) Pop() (Job, bool) {
	if len(q.jobs) == 0 {
		return Job{}, false
	}
	j := q.jobs[0]
	q.jobs = q.jobs[1:]
	return j, true
}
"""
FORM = """export default function Form({ onSend }) {
  const [name, setName] = useState("");
  const [mail, setMail] = useState("");

  function send(event) {
    event.preventDefault();
    onSend({ name, mail });
  }

  return (
    <form onSubmit={send}>
      <input value={name} onChange={(e) => setName(e.target.value)} />
      <input value={mail} onChange={(e) => setMail(e.target.value)} />
      <button type="submit">Send</button>
    </form>
  );
}
"""
UTIL = """export const sum = (a, b) => a + b;

export const mean = (list) => {
  const total = list.reduce(sum, 0);
  return total / list.length;
};

export const max = (list) => Math.max(...list);
"""
ASYNC = """import asyncio


async def fetch(client, url):
    try:
        answer = await client.get(url)
        answer.raise_for_status()
    except ClientError as problem:
        print(problem)
        return None
    finally:
        await client.close()
    return answer.json()


async def main():
    client = Client()
    print(await fetch(client, "/"))


asyncio.run(main())
"""
DEPLOY = """apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  replicas: 2
  template:
    spec:
      containers:
        - name: web
          image: web:1
          env:
            - name: PORT
              value: "80"
        - name: proxy
          image: proxy:1
"""
RUSTY = """pub trait Shape {
    fn area(&self) -> f64;
}

pub struct Circle(pub f64);
pub struct Square(pub f64);

impl Shape for Circle {
    fn area(&self) -> f64 {
        3.14 * self.0 * self.0
    }
}

impl Shape for Square {
    fn area(&self) -> f64 {
        self.0 * self.0
    }
}
"""
ENTRIES = '[\n  {\n    "id": 1,\n    "name": "a"\n  },\n  {\n    "id": 2,\n    "name": "b"\n  }\n]\n'
OVERLOADS = "class A {\n    void a() {\n        x();\n    }\n\n    void a(int i) {\n        y(i);\n    }\n}\n"
SECTIONS = "# T\n\ntext\n\n## A\n\n- one\n- two\n\n## B\n\n- one\n"
J = "// ... existing code ...\n"
P = "# ... existing code ...\n"
CASES: list[Row] = [
    (
        "last, a function with its comment in Go",
        "queue.go",
        QUEUE,
        f"{J}\n// Len says how many jobs there are.\nfunc (q *Queue) Len() int {{\n\treturn len(q.jobs)\n}}\n",
        None,
    ),
    (
        "last, a function and its comment changed in Go",
        "queue.go",
        QUEUE,
        f"{J}\n// Push adds a job at the end.\nfunc (q *Queue) Push(j Job) {{\n\tq.jobs = append(q.jobs, j)\n\tq.added++\n}}\n\n// Pop takes the first job.\n{J}",
        None,
    ),
    (
        "last, a field with a comment in Go",
        "queue.go",
        QUEUE,
        f"package queue\n\n// Queue keeps jobs.\ntype Queue struct {{\n\tjobs  []Job\n\tadded int // ever\n}}\n\n{J}",
        swap(QUEUE, "\tjobs []Job\n", "\tjobs  []Job\n\tadded int // ever\n"),
    ),
    (
        "last, a check at the start of a function in Go",
        "queue.go",
        QUEUE,
        f"{J}\nfunc (q *Queue) Push(j Job) {{\n\tif q == nil {{\n\t\treturn\n\t}}\n\t{J}}}\n\n{J}",
        swap(QUEUE, "\tq.jobs = append", "\tif q == nil {\n\t\treturn\n\t}\n\tq.jobs = append"),
    ),
    (
        "last, a state in a component",
        "Form.jsx",
        FORM,
        f'export default function Form({{ onSend }}) {{\n  const [name, setName] = useState("");\n  const [mail, setMail] = useState("");\n  const [busy, setBusy] = useState(false);\n\n  {J}}}\n',
        swap(
            FORM, 'setMail] = useState("");\n', 'setMail] = useState("");\n  const [busy, setBusy] = useState(false);\n'
        ),
    ),
    (
        "last, an inner function and an element",
        "Form.jsx",
        FORM,
        f'{J}\n  function send(event) {{\n    event.preventDefault();\n    if (!name) return;\n    onSend({{ name, mail }});\n  }}\n\n  return (\n    <form onSubmit={{send}}>\n      {{/* ... existing inputs ... */}}\n      <button type="submit" disabled={{!name}}>Send</button>\n    </form>\n  );\n}}\n',
        None,
    ),
    (
        "last, an inner function",
        "Form.jsx",
        FORM,
        f"{J}\n  function send(event) {{\n    event.preventDefault();\n    if (!name) return;\n    onSend({{ name, mail }});\n  }}\n\n  {J}}}\n",
        swap(FORM, "    onSend(", "    if (!name) return;\n    onSend("),
    ),
    (
        "last, an arrow of one line",
        "util.js",
        UTIL,
        f"{J}\nexport const max = (list) => (list.length ? Math.max(...list) : null);\n",
        swap(UTIL, "Math.max(...list);", "(list.length ? Math.max(...list) : null);"),
    ),
    (
        "last, an arrow of several lines",
        "util.js",
        UTIL,
        f"{J}\nexport const mean = (list) => {{\n  if (!list.length) return 0;\n  {J}}};\n\n{J}",
        swap(UTIL, "  const total", "  if (!list.length) return 0;\n  const total"),
    ),
    (
        "last, arrows at the end",
        "util.js",
        UTIL,
        f"{J}\nexport const min = (list) => Math.min(...list);\n",
        None,
    ),
    (
        "last, a branch of try",
        "net.py",
        ASYNC,
        f"{P}\nasync def fetch(client, url):\n    try:\n        {P}    except ClientError as problem:\n        log.warning(problem)\n        return None\n    {P}\n\n{P}",
        swap(ASYNC, "print(problem)", "log.warning(problem)"),
    ),
    (
        "last, a branch more of try",
        "net.py",
        ASYNC,
        f"{P}\nasync def fetch(client, url):\n    try:\n        {P}    except ClientError as problem:\n        {P}    except TimeoutError:\n        return None\n    finally:\n        {P}    return answer.json()\n\n\n{P}",
        swap(ASYNC, "    finally:", "    except TimeoutError:\n        return None\n    finally:"),
    ),
    (
        "last, a container of a list in YAML",
        "deploy.yaml",
        DEPLOY,
        f"{P}      containers:\n        - name: web\n          image: web:2\n          {P}        - name: proxy\n          image: proxy:1\n",
        swap(DEPLOY, "web:1", "web:2"),
    ),
    (
        "last, a variable in a list in YAML",
        "deploy.yaml",
        DEPLOY,
        f'{P}          env:\n            - name: PORT\n              value: "80"\n            - name: MODE\n              value: prod\n{P}',
        swap(DEPLOY, 'value: "80"\n', 'value: "80"\n            - name: MODE\n              value: prod\n'),
    ),
    (
        "last, a value deep in YAML",
        "deploy.yaml",
        DEPLOY,
        f"{P}spec:\n  replicas: 3\n  {P}",
        swap(DEPLOY, "replicas: 2", "replicas: 3"),
    ),
    (
        "last, one of two implementations of a trait",
        "shape.rs",
        RUSTY,
        f"{J}\nimpl Shape for Square {{\n    fn area(&self) -> f64 {{\n        self.0.powi(2)\n    }}\n}}\n",
        RUSTY[: RUSTY.rindex("self.0 * self.0")] + "self.0.powi(2)\n    }\n}\n",
    ),
    (
        "last, the first of two implementations",
        "shape.rs",
        RUSTY,
        f"{J}\nimpl Shape for Circle {{\n    fn area(&self) -> f64 {{\n        std::f64::consts::PI * self.0.powi(2)\n    }}\n}}\n\n{J}",
        swap(RUSTY, "3.14 * self.0 * self.0", "std::f64::consts::PI * self.0.powi(2)"),
    ),
    (
        "last, a method of a trait and of both implementations",
        "shape.rs",
        RUSTY,
        f'pub trait Shape {{\n    fn area(&self) -> f64;\n    fn name(&self) -> &str;\n}}\n\n{J}\nimpl Shape for Circle {{\n    {J}\n    fn name(&self) -> &str {{\n        "circle"\n    }}\n}}\n\nimpl Shape for Square {{\n    {J}\n    fn name(&self) -> &str {{\n        "square"\n    }}\n}}\n',
        RUSTY.replace("-> f64;\n", "-> f64;\n    fn name(&self) -> &str;\n")
        .replace(
            "3.14 * self.0 * self.0\n    }\n",
            '3.14 * self.0 * self.0\n    }\n\n    fn name(&self) -> &str {\n        "circle"\n    }\n',
        )
        .replace(
            "        self.0 * self.0\n    }\n",
            '        self.0 * self.0\n    }\n\n    fn name(&self) -> &str {\n        "square"\n    }\n',
        ),
    ),
    (
        "last, an entry of a list changed",
        "x.json",
        ENTRIES,
        '[\n  // ... existing code ...\n  {\n    "id": 2,\n    "name": "c"\n  }\n]\n',
        swap(ENTRIES, '"b"', '"c"'),
    ),
    (
        "last, an entry of a list more",
        "x.json",
        ENTRIES,
        '[\n  // ... existing code ...\n  {\n    "id": 3,\n    "name": "c"\n  }\n]\n',
        swap(ENTRIES, '"b"\n  }\n', '"b"\n  },\n  {\n    "id": 3,\n    "name": "c"\n  }\n'),
    ),
    (
        "last, an entry of a list between two",
        "x.json",
        ENTRIES,
        '[\n  {\n    "id": 1,\n    "name": "a"\n  },\n  {\n    "id": 9,\n    "name": "z"\n  },\n  // ... existing code ...\n]\n',
        swap(ENTRIES, '"a"\n  },\n', '"a"\n  },\n  {\n    "id": 9,\n    "name": "z"\n  },\n'),
    ),
    (
        "last, an overload more or another one",
        "A.java",
        OVERLOADS,
        f"class A {{\n    {J}\n    void a(String s) {{\n        z(s);\n    }}\n}}\n",
        None,
    ),
    (
        "last, a marker below a heading for the sections, too",
        "x.md",
        SECTIONS,
        "# T\n\n<!-- existing content -->\n\n## B\n\n<!-- existing content -->\n- two\n",
        SECTIONS + "- two\n",
    ),
    (
        "last, an item like the ones before it",
        "x.html",
        "<ul>\n  <li>one</li>\n  <li>two</li>\n</ul>\n",
        "<ul>\n  <!-- ... existing code ... -->\n  <li>twos</li>\n</ul>\n",
        None,
    ),
    (
        "last, a column after the last one",
        "x.sql",
        "CREATE TABLE a (\n    id INT,\n    x TEXT\n);\n",
        "CREATE TABLE a (\n    -- ... existing columns ...\n    z TEXT\n);\n",
        "CREATE TABLE a (\n    id INT,\n    x TEXT,\n    z TEXT\n);\n",
    ),
    (
        "last, one function of two with the head of the file",
        "a.go",
        "package a\n\nfunc A() int {\n\treturn 1\n}\n\nfunc B() int {\n\treturn 2\n}\n",
        "package a\n\nfunc A() int {\n\treturn 5\n}\n",
        None,
    ),
]
