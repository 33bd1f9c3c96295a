"""Ctrl-C and SIGTERM."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(os.name == "nt", reason="POSIX signals")

SLOW = """\
name: slow
config: {provider: mock, latency_ms: 60000}
steps:
- {id: quick, type: nap, value: 1, output: quick}
- {id: slow, type: llm_call, prompt: hi, depends_on: [quick], output: reply}
- {id: after, type: nap, depends_on: [slow]}
"""


def wait_for(process: subprocess.Popen[bytes], line: str) -> None:
    assert process.stderr is not None
    seen = []
    for read in process.stderr:
        seen.append(read.decode())
        if seen[-1].strip() == line:
            return
    raise AssertionError(f"never said {line!r}: {seen}")


@pytest.mark.parametrize(
    ("number", "code", "reason"),
    [(signal.SIGINT, 130, "interrupted by Ctrl-C"), (signal.SIGTERM, 143, "terminated by SIGTERM")],
)
def test_a_signal_ends_the_run_with_its_result(program: Any, number: int, code: int, reason: str) -> None:
    with program.start("run", program.write("flow.yaml", SLOW), "--json") as process:
        wait_for(process, "slow: started")
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    data = json.loads(out)
    assert process.returncode == code
    assert (data["status"], data["error"]) == ("cancelled", reason)
    assert {step: result["status"] for step, result in data["step_results"].items()} == {
        "quick": "success",
        "slow": "cancelled",
        "after": "skipped",
    }
    assert data["final_state"] == {"quick": 1}
    assert f"error: {reason}\n" in err.decode()
    assert "Traceback" not in err.decode()


def test_what_was_made_before_ctrl_c_is_printed(program: Any) -> None:
    with program.start("run", program.write("flow.yaml", SLOW)) as process:
        wait_for(process, "slow: started")
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, b"quick: 1\n")


def test_a_second_ctrl_c_ends_at_once_even_where_a_step_blocks_the_loop(program: Any) -> None:
    document = "name: b\nsteps:\n- {id: a, type: block, seconds: 60}\n"
    with program.start("run", program.write("flow.yaml", document), "--json") as process:
        wait_for(process, "blocking")
        process.send_signal(signal.SIGINT)
        time.sleep(0.5)  # sooner it would count as the same one
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, b"")


def test_the_same_ctrl_c_passed_on_twice_is_one(program: Any) -> None:
    with program.start("run", program.write("flow.yaml", SLOW), "--json") as process:
        wait_for(process, "slow: started")
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=30)
    assert process.returncode == 130
    assert json.loads(out)["status"] == "cancelled"


def test_ctrl_c_while_a_command_waits_for_its_input_has_no_traceback(program: Any) -> None:
    pipe = program.folder / "state.json"
    os.mkfifo(pipe)
    process = program.start("run", program.write("flow.yaml", SLOW), "--state-file", "state.json")
    with process, pipe.open("wb"):  # opens when the program has opened its end
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (130, b"error: interrupted\n")


def test_a_program_started_to_ignore_ctrl_c_ignores_it(program: Any) -> None:
    def ignore() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    with program.start("run", program.write("flow.yaml", SLOW), "--json", preexec_fn=ignore) as process:
        wait_for(process, "slow: started")
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=30)
    assert process.returncode == 143
    assert json.loads(out)["error"] == "terminated by SIGTERM"


def test_ctrl_c_ends_the_process_of_a_step_and_what_it_started(program: Any) -> None:
    flow = program.write("flow.yaml", "name: x\nsteps:\n- {id: a, type: work, file: pids}\n")
    with program.start("run", flow) as process:
        wait_for(process, "working")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in err.decode()
    pids = [int(each) for each in (program.folder / "pids").read_text(encoding="utf-8").split()]
    deadline = time.monotonic() + 30
    while any(map(is_alive, pids)):
        assert time.monotonic() < deadline, "it still runs"
        time.sleep(0.05)


def is_alive(pid: int) -> bool:
    """Whether the process runs; an orphan that has ended stays until somebody has waited for it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
