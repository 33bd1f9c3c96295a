"""Measures Treadle against hand-written floors, and against other systems if asked to. See README.md beside it.

usage: run.py [--rounds N] [--only TEXT] [--peers] [--json FILE]

It needs the standard library only; what is measured runs in processes of its own, with the interpreter that runs this,
except for start-up, for which Treadle gets an environment without development tools.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import model_calls

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
DRIVERS = HERE / "drivers"
TREADLE_VENV = HERE / ".venv-treadle"
PEERS_VENV = HERE / ".venv-peers"
FRAMEWORKS_VENV = HERE / ".venv-frameworks"
PEERS = ["agentloom==0.4.0"]
LIBRARIES = (
    "import click, pluggy, pydantic, stevedore.named, yaml\nclass Model(pydantic.BaseModel): field: int = 1\nModel()"
)
GRAPHS = (("chain", 50), ("chain", 1000), ("chain", 10_000), ("fan-out", 10_000))
MOST_OF_PEERS = 1000
"""Steps of a chain; theirs costs more than in proportion, and nothing is learnt by waiting for it."""


@dataclass(frozen=True)
class Row:
    """One thing to measure.

    :param floor: label of the row of the same workload that it is compared with; None for the floor itself.
    :param peer: label of another system's row of the same workload, where that is compared with too.
    :param says: text that its output must hold, or it did not do the work.
    :param reports: whether it measures itself, and prints a JSON object with `seconds` and `n`; else the whole process
        counts.
    :param each: what its `n` counts.
    """

    workload: str
    label: str
    argv: tuple[str, ...]
    floor: str | None = None
    peer: str | None = None
    says: str = ""
    reports: bool = False
    each: str = "step"
    env: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def unit(self) -> str:
        return f"us/{self.each}" if self.reports else "ms"


@dataclass(frozen=True)
class Sample:
    """What one process took: value in the row's unit, peak memory in MiB; or why it does not count."""

    value: float = 0.0
    memory: float = 0.0
    failure: str | None = None


def start_up_rows() -> list[Row]:
    interpreter, treadle = str(TREADLE_VENV / "bin" / "python"), str(TREADLE_VENV / "bin" / "treadle")
    one = str(HERE / "one.yaml")
    validate, run = (treadle, "validate", one), (treadle, "run", one, "--json")
    floor = "python -c pass"
    return [
        Row("start-up", floor, (interpreter, "-c", "pass")),
        Row("start-up", "import trio", (interpreter, "-c", "import trio"), floor),
        Row("start-up", "libraries", (interpreter, "-c", LIBRARIES), floor, "agentloom validate"),
        Row("start-up", "libraries and trio", (interpreter, "-c", f"{LIBRARIES}\nimport trio"), floor, "agentloom run"),
        Row("start-up", "import treadle", (interpreter, "-c", "import treadle"), floor),
        Row("start-up", "treadle --help", (treadle, "--help"), floor, "agentloom --help", says="validate"),
        Row("start-up", "treadle validate", validate, floor, "agentloom validate", says="ok (1 step)"),
        Row("start-up", "treadle run", run, "import trio", "agentloom run", says='"answer"'),
    ]


def graph_rows(plugin: Path) -> list[Row]:
    rows = []
    env = {"PYTHONPATH": os.pathsep.join([str(plugin), str(DRIVERS)])}
    for shape, count in GRAPHS:
        for label, floor in (("floor: trio", None), ("treadle", "floor: trio")):
            driver = DRIVERS / ("graph_floor.py" if floor is None else "graph_treadle.py")
            argv = (sys.executable, str(driver), shape, str(count))
            peer = "agentloom" if floor and _peer_runs(shape, count) else None
            rows.append(Row(f"{shape} of {count}", label, argv, floor, peer, reports=True, env=env))
    return rows


def _peer_runs(shape: str, count: int) -> bool:
    return shape == "chain" and count <= MOST_OF_PEERS


def peer_rows() -> list[Row]:
    """Other systems' command lines, doing what their manuals say."""
    agentloom = str(PEERS_VENV / "bin" / "agentloom")
    one = str(HERE / "one.yaml")
    floor = "python -c pass"
    return [
        Row("start-up", "agentloom --help", (agentloom, "--help"), floor, says="validate"),
        Row("start-up", "agentloom validate", (agentloom, "validate", one), floor, says="is valid"),
        Row("start-up", "agentloom run", (agentloom, "run", one, "--lite"), "import trio", says="[OK] success"),
        *(
            Row(
                f"{shape} of {count}",
                "agentloom",
                (str(PEERS_VENV / "bin" / "python"), str(DRIVERS / "graph_agentloom.py"), shape, str(count)),
                "floor: trio",
                reports=True,
            )
            for shape, count in GRAPHS
            if _peer_runs(shape, count)
        ),
    ]


def batch_rows() -> list[Row]:
    """A batch of runs of one call each; the floor is what waiting for the calls alone takes."""
    argv = (sys.executable, str(DRIVERS / "batch.py"))
    work = ("1000", "100", "100")
    return [
        Row("batch of 1000", "floor: trio", (*argv, "floor", *work), reports=True, each="run"),
        Row("batch of 1000", "treadle", (*argv, "treadle", *work), "floor: trio", reports=True, each="run"),
    ]


def foreach_rows(plugin: Path) -> list[Row]:
    """Items of a `foreach`; the floor is a step of a chain."""
    env = {"PYTHONPATH": os.pathsep.join([str(plugin), str(DRIVERS)])}
    argv = (sys.executable, str(DRIVERS / "graph_treadle.py"))
    return [
        Row("10000 items", "chain", (*argv, "chain", "10000"), reports=True, each="item", env=env),
        Row("10000 items", "foreach", (*argv, "foreach", "10000"), "chain", reports=True, each="item", env=env),
    ]


def install(what: Sequence[str], venv: Path, *, called: str = "", made_of: str = "") -> str:
    """Put distributions into an environment of their own, once; give its interpreter.

    :param made_of: the hash of what they are made of, for those that are no fixed version.
    """
    interpreter = str(venv / "bin" / "python")
    done, wanted = venv / ".installed", "\n".join([*what, made_of])
    if not done.is_file() or done.read_text(encoding="utf-8") != wanted:
        print(f"installing {called or ' '.join(what)} into {venv.relative_to(ROOT)}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(venv)], check=True)
        subprocess.run([interpreter, "-m", "pip", "install", "--quiet", *what], check=True)
        done.write_text(wanted, encoding="utf-8")
    return interpreter


def install_treadle() -> str:
    """Put what `pip install treadle` brings into an environment of its own, from this tree; give its interpreter."""
    folders: dict[str, Path] = {}
    waiting = _needs(ROOT)
    while waiting:
        name = waiting.pop()
        if name not in folders:
            kind = name.removeprefix("treadle-")
            folders[name] = ROOT / kind if kind in ("kernel", "cli") else ROOT / "plugins" / name.replace("-", "_")
            waiting += _needs(folders[name])
    files = (file for folder in folders.values() for file in folder.rglob("*") if file.suffix in (".py", ".toml"))
    made_of = hashlib.sha256(b"".join(file.read_bytes() for file in sorted(files))).hexdigest()
    what = ["-c", str(ROOT / "constraints.txt"), *(str(folders[name]) for name in sorted(folders))]
    return install(what, TREADLE_VENV, called="treadle", made_of=made_of)


def _needs(folder: Path) -> list[str]:
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = (re.split(r"[<>=\[]", each, maxsplit=1)[0].strip() for each in project["dependencies"])
    return [name for name in names if name.startswith("treadle-")]


def write_noop_plugin(folder: Path) -> None:
    """Make drivers/noop_plugin.py an installed distribution, for processes that have the folder on their path."""
    info = folder / "bench_noop-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: bench-noop\nVersion: 0.1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[treadle.plugins]\nbench_noop = noop_plugin\n", encoding="utf-8")


def measure(row: Row, cpu: int | None, folder: Path, timeout: float = 120) -> Sample:
    """Run the row's process once. It is bound to one core where the system can do that."""
    environment = os.environ | {"NO_COLOR": "1", "TERM": "dumb"} | dict(row.env)
    # The warm-up round must be able to leave compiled modules behind, or who was installed uncompiled pays every time.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryFile() as output:
        start = time.perf_counter()
        process = subprocess.Popen(
            row.argv, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=environment, cwd=folder
        )
        if cpu is not None:
            os.sched_setaffinity(process.pid, {cpu})
        killer = threading.Timer(timeout, process.kill)
        killer.start()
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        killer.cancel()
        code = process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read().decode(errors="replace")
    if code or row.says not in text:
        tail = text.strip().splitlines()[-3:]
        return Sample(failure=f"exit {code}: {' / '.join(tail) or 'it said nothing'}")
    value = wall * 1e3
    if row.reports:
        report = json.loads(text.strip().splitlines()[-1])
        value = report["seconds"] / report["n"] * 1e6
    # ru_maxrss is in KiB on Linux and in bytes on macOS.
    return Sample(value, usage.ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10))


def run_rounds(rows: Sequence[Row], rounds: int, folder: Path) -> dict[Row, list[Sample]]:
    """Every row once a round, A B C A B C, so that a slow minute of the machine hits all alike.

    A first round fills caches and is not counted.
    """
    cpus = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    cpu = cpus[-1] if len(cpus) > 1 else None
    samples: dict[int, list[Sample]] = {index: [] for index in range(len(rows))}
    for number in range(rounds + 1):
        print(f"round {number} of {rounds}{'' if number else ' (warm-up)'}", file=sys.stderr)
        for index, row in enumerate(rows):
            sample = measure(row, cpu, folder)
            if number:
                samples[index].append(sample)
    return {row: samples[index] for index, row in enumerate(rows)}


def summarize(samples: Mapping[Row, Sequence[Sample]]) -> list[dict[str, Any]]:
    """One object a row: median, least and most, and ratios of medians, all of this same run.

    `ratio` is to its floor's; `peer_ratio` and `peer_memory_ratio` are to another system's.
    """
    table = {(row.workload, row.label): _entry(row, all_of_row) for row, all_of_row in samples.items()}
    for row in samples:
        entry = table[row.workload, row.label]
        for name, label in (("", row.floor), ("peer_", row.peer)):
            other = table.get((row.workload, label)) if label else None
            if other is None or "median" not in other or "median" not in entry:
                continue
            entry[f"{name}ratio"] = round(entry["median"] / other["median"], 2)
            if name:
                entry[f"{name}memory_ratio"] = round(entry["memory_mib"] / other["memory_mib"], 2)
    return list(table.values())


def _entry(row: Row, samples: Sequence[Sample]) -> dict[str, Any]:
    entry: dict[str, Any] = {"workload": row.workload, "label": row.label, "unit": row.unit}
    entry |= {"floor": row.floor, "peer": row.peer}
    entry["failures"] = sorted({sample.failure for sample in samples if sample.failure is not None})
    if samples and not entry["failures"]:
        values = [sample.value for sample in samples]
        entry |= {
            "median": round(statistics.median(values), 3),
            "min": round(min(values), 3),
            "max": round(max(values), 3),
            "memory_mib": round(statistics.median(sample.memory for sample in samples), 1),
            "runs": len(values),
        }
    return entry


def print_table(table: Sequence[Mapping[str, Any]]) -> None:
    spread = f"{'median':>9} {'min':>9} {'max':>9}"
    print(
        f"{'workload':<22} {'row':<20} {spread} {'unit':<8} {'MiB':>6} {'x floor':>8} {'x peer':>7} {'MiB x peer':>10}"
    )
    for entry in table:
        start = f"{entry['workload']:<22} {entry['label']:<20}"
        if entry["failures"]:
            print(f"{start} FAILED: {entry['failures'][0]}")
            continue
        spread = f"{entry['median']:>9.1f} {entry['min']:>9.1f} {entry['max']:>9.1f}"
        widths = {"ratio": 8, "peer_ratio": 7, "peer_memory_ratio": 10}
        ratios = " ".join(
            f"{entry[name]:>{width}.2f}" if name in entry else " " * width for name, width in widths.items()
        )
        print(f"{start} {spread} {entry['unit']:<8} {entry['memory_mib']:>6.1f} {ratios}".rstrip())


def about() -> dict[str, Any]:
    """What the numbers depend on."""
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cores": os.cpu_count(),
        "versions": dict(sorted((dist.name, dist.version) for dist in distributions())),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure Treadle against hand-written floors.")
    parser.add_argument("--rounds", type=int, default=7, help="counted rounds (default: 7)")
    parser.add_argument("--only", default="", help="only workloads whose name holds this text")
    parser.add_argument("--peers", action="store_true", help="install and measure other systems too")
    parser.add_argument("--json", type=Path, help="where to write the results (default: benchmarks/raw/TIME.json)")
    options = parser.parse_args()
    install_treadle()
    frameworks = None
    if options.peers:
        install(PEERS, PEERS_VENV)
        frameworks = install(model_calls.FRAMEWORKS, FRAMEWORKS_VENV)
    with tempfile.TemporaryDirectory() as name, model_calls.server() as url:
        plugin = Path(name, "plugin")
        plugin.mkdir()
        write_noop_plugin(plugin)
        rows = [*start_up_rows(), *(peer_rows() if options.peers else []), *graph_rows(plugin)]
        rows += [*foreach_rows(plugin), *batch_rows()]
        rows += model_calls.rows(Row, url, frameworks)
        rows = [row for row in rows if options.only in row.workload]
        if not rows:
            print(f"no workload's name holds {options.only!r}", file=sys.stderr)
            return 2
        table = summarize(run_rounds(rows, options.rounds, Path(name)))
    print_table(table)
    started = about()
    target: Path = options.json or HERE / "raw" / f"{started['at'].replace(':', '')}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps({"about": started, "rows": table}, indent=2) + "\n", encoding="utf-8")
    print(f"results: {os.path.relpath(target)}", file=sys.stderr)
    return 1 if any(entry["failures"] for entry in table) else 0


if __name__ == "__main__":
    sys.exit(main())
