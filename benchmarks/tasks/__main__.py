"""`python -m benchmarks.tasks --model MODEL --clones DIR`: measure a model on ten real corrections.

Nothing is fetched: DIR has clones of the repositories (`--list` names them). `--model gold` and `--model wrong` are
scripts that have to resolve all and none; they measure the measurement. With `--make`, the lists of tests are made anew
from the clones.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchmarks.tasks.instances import (
    Instance,
    load_instances,
    make_instance,
    read_patches,
    save_instances,
    write_instances,
)
from benchmarks.tasks.runs import TaskRunner, format_table
from benchmarks.tasks.work_trees import build_test_run


def main(arguments: Sequence[str]) -> int:
    """Run the tasks and print the outcomes. Returns 1 if a task could not be run at all."""
    args = _build_parser().parse_args(arguments)
    instances = [
        instance for instance in load_instances(args.instances) if not args.only or instance.instance_id in args.only
    ]
    if args.list:
        for repo in sorted({(instance.repo, instance.license) for instance in instances}):
            print(f"https://github.com/{repo[0]}  {repo[1]}")
        return 0
    if args.export is not None:
        write_instances([read_patches(instance, args.clones) for instance in instances], args.export)
        return 0
    run_tests = build_test_run(args.python, boxed=not args.unboxed)
    with tempfile.TemporaryDirectory(prefix="tasks-") as scratch:
        if args.make:
            _make(instances, args, Path(scratch))
            return 0
        args.out.mkdir(parents=True, exist_ok=True)
        runner = TaskRunner(
            model=args.model,
            clones=args.clones,
            scratch=Path(scratch).resolve(),
            out=args.out.resolve(),
            run_tests=run_tests,
            options=tuple(args.options),
        )
        outcomes = []
        for instance in instances:
            outcomes.append(runner.run(instance))
            print(format_table(outcomes[-1:]).splitlines()[0], flush=True)
    (args.out / "results.json").write_bytes(msgspec.json.format(msgspec.json.encode(outcomes), indent=2) + b"\n")
    print(format_table(outcomes).splitlines()[-1])
    return int(any(outcome.problem for outcome in outcomes))


def _make(instances: Sequence[Instance], args: argparse.Namespace, scratch: Path) -> None:
    run_tests = build_test_run(args.python, boxed=not args.unboxed)
    tasks = list[Instance]()
    for instance in instances:
        tasks.append(make_instance(instance, args.clones, scratch, run_tests))
        counts = f"{len(tasks[-1].FAIL_TO_PASS)} fail, {len(tasks[-1].PASS_TO_PASS)} pass"
        print(f"{instance.instance_id}: {counts} without the correction", flush=True)
    known = {instance.instance_id: instance for instance in load_instances(args.instances)}
    save_instances(list((known | {instance.instance_id: instance for instance in tasks}).values()), args.instances)


def _build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tasks", description=__doc__)
    parser.add_argument("--model", default="gold", help="PROVIDER/NAME, gold or wrong (default: gold)")
    parser.add_argument("--clones", type=Path, default=Path(), metavar="DIR", help="the directory of the clones")
    parser.add_argument("--only", action="append", metavar="ID", help="only this task; repeatable")
    parser.add_argument("--out", type=Path, default=Path("task-results"), metavar="DIR", help="for results")
    parser.add_argument("--python", default=sys.executable, help="a Python with pytest that runs the tests")
    parser.add_argument("--unboxed", action="store_true", help="run the tests without a sandbox, as in a container")
    parser.add_argument("--make", action="store_true", help="make the lists of tests anew, and save them")
    parser.add_argument("--list", action="store_true", help="list the repositories and their licences, and stop")
    parser.add_argument("--export", type=Path, metavar="FILE", help="write the tasks with their patches, and stop")
    parser.add_argument(
        "--instances", type=Path, default=Path(__file__).with_name("instances.json"), help="the file of the tasks"
    )
    parser.add_argument("options", nargs="*", metavar="-- OPTION", help="more options of agent-tui -p, after --")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
