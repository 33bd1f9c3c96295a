"""``treadle batch``: inputs, results in order, failures, budgets, and going on after any end."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

FLOW = """\
name: ask
config: {provider: mock, max_retries: 0, latency_ms: %s}
state: {topic: none}
steps:
  - {id: ask, type: llm_call, prompt: "Write on {state.topic}", output: text}
"""


def treadle(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), cwd=cwd, capture_output=True, encoding="utf-8", timeout=120, check=False)


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "treadle_cli", *arguments]


def batch(cwd: Path, *more: str) -> subprocess.CompletedProcess[str]:
    return treadle("batch", "flow.yaml", "--inputs", "items.jsonl", "--output", "results.jsonl", *more, cwd=cwd)


def results(folder: Path) -> list[dict[str, Any]]:
    text = (folder / "results.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def write(folder: Path, items: Sequence[Any], latency_ms: int = 0, flow: str = FLOW) -> None:
    (folder / "flow.yaml").write_text(flow.replace("%s", str(latency_ms)), encoding="utf-8")
    (folder / "items.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in items), encoding="utf-8")


def test_every_line_is_a_run_and_results_stand_in_the_order_of_the_inputs(tmp_path: Path):
    write(tmp_path, [{"key": f"k{n}", "topic": f"t{n}"} for n in range(30)], 20)
    done = batch(tmp_path, "--concurrency", "7", "--json")
    assert done.returncode == 0, done.stderr
    found = results(tmp_path)
    assert [(each["line"], each["key"], each["status"]) for each in found] == [
        (n + 1, f"k{n}", "success") for n in range(30)
    ]
    assert found[0]["output"] == {"text": "Mock response"}
    assert json.loads(done.stdout) == {
        "lines": 30,
        "done": 30,
        "paused": 0,
        "failed": [],
        "total_cost_usd": 0.0,
        "known_cost_usd": 0.0,
        "budget_usd": None,
    }
    assert "30/30 done" in done.stderr
    shown = treadle("show", found[4]["run_id"], "--json", cwd=tmp_path)
    assert json.loads(shown.stdout)["final_state"]["topic"] == "t4"


def test_wrong_lines_are_all_told_with_their_places_before_anything_is_run(tmp_path: Path):
    write(tmp_path, [])
    lines = [
        '{"topic": "a"}',
        '{"topic": }',
        "",
        '  ["a"]',
        '{"key": 1.5}',
        '{"key": "x"}',
        '{"key": "x"}',
        '{"a":1,"a":2}',
    ]
    (tmp_path / "items.jsonl").write_text("\n".join(lines), encoding="utf-8")
    done = batch(tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "items.jsonl:2:11: not JSON: Expecting value",
        "items.jsonl:4:3: a line is one JSON object, the state of a run",
        "items.jsonl:5:1: its key must be a text or a whole number",
        "items.jsonl:7:1: the key 'x' is taken by line 6",
        "items.jsonl:8:1: not JSON: 'a' stands there twice",
        "error: 5 errors",
    ]
    assert not (tmp_path / "results.jsonl").exists()
    assert not (tmp_path / ".treadle").exists()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "items.jsonl: cannot be read: No such file or directory"),
        (b"\n\n", "items.jsonl: has no line; write one JSON object a line, the state of a run"),
        (b"\xff", "items.jsonl: not UTF-8 text: invalid start byte at byte 0"),
    ],
)
def test_a_file_of_inputs_that_cannot_be_used_is_told(content: bytes | None, says: str, tmp_path: Path):
    write(tmp_path, [])
    (tmp_path / "items.jsonl").unlink()
    if content is not None:
        (tmp_path / "items.jsonl").write_bytes(content)
    done = batch(tmp_path)
    assert (done.returncode, done.stderr) == (2, f"error: {says}\n")


def test_a_key_that_no_step_reads_is_doubted_and_the_key_field_is_not(tmp_path: Path):
    write(tmp_path, [{"key": "a", "topik": "x"}])
    done = batch(tmp_path)
    assert "warning: no step reads state key 'topik'; did you mean 'topic'?" in done.stderr
    assert "'key'" not in done.stderr


FAILS = """\
name: ask
config: {provider: mock, max_retries: 0, strict_templates: true}
steps:
  - {id: ask, type: llm_call, prompt: "Write on {state.topic}", output: text}
"""


def test_failures_are_listed_with_their_lines_and_can_be_run_again(tmp_path: Path):
    write(tmp_path, [{"key": "a", "topic": 1}, {"key": "b"}, {"topic": 2}], flow=FAILS)
    done = batch(tmp_path)
    assert done.returncode == 1
    assert [each["status"] for each in results(tmp_path)] == ["success", "failed", "success"]
    assert "failed: line 2 (b): step 'ask': " in done.stderr
    assert "\n--retry-failed tries it again\n" in done.stderr
    assert "3/3 done, 1 failed" in done.stderr
    again = batch(tmp_path)
    assert "\n--retry-failed tries it again\n" in again.stderr
    assert again.returncode == 1, "it stays failed, and nothing is run again"
    before = (tmp_path / "results.jsonl").read_text(encoding="utf-8").splitlines()
    retried = batch(tmp_path, "--retry-failed", "-s", "topic=all")
    assert retried.returncode == 0, retried.stderr
    after = (tmp_path / "results.jsonl").read_text(encoding="utf-8").splitlines()
    assert (after[0], after[2]) == (before[0], before[2])
    assert [each["status"] for each in results(tmp_path)] == ["success"] * 3


def test_equal_errors_are_told_once_with_their_count(tmp_path: Path):
    write(tmp_path, [{"key": f"k{n}"} for n in range(25)], flow=FAILS)
    for _ in range(2):
        done = batch(tmp_path)
        assert done.returncode == 1
        *_, failed, hint, last = done.stderr.splitlines()
        assert done.stderr.count("failed: ") == 1
        assert failed.startswith("failed: line 1 (k0) and 24 more: step 'ask': ")
        assert hint == "--retry-failed tries them again"
        assert last.startswith("25/25 done, 25 failed, ")


def test_after_kill_9_nothing_that_has_finished_is_run_again(tmp_path: Path):
    """The calls of all starts together, as the journal has them, are one for each line, but for those cut off."""
    write(tmp_path, [{"topic": f"t{n}"} for n in range(60)], 100)
    arguments = ("batch", "flow.yaml", "--inputs", "items.jsonl", "--output", "results.jsonl", "--concurrency", "5")
    for wanted in (10, 30):
        process = subprocess.Popen(command(*arguments), cwd=tmp_path, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while len(results(tmp_path)) < wanted if (tmp_path / "results.jsonl").exists() else True:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.kill()
        process.wait()
    with (tmp_path / "results.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"line": 31, "torn')  # as a write that was cut off
    had = {each["line"]: each for each in results_whole(tmp_path)}
    done = batch(tmp_path)
    assert done.returncode == 0, done.stderr
    found = results(tmp_path)
    assert [each["line"] for each in found] == list(range(1, 61))
    assert all(had[line] == found[line - 1] for line in had)
    from treadle_journal_sqlite.journal import SqliteJournal

    journal = SqliteJournal(tmp_path / ".treadle" / "journal.db")
    try:
        answered = [
            sum(entry.kind == "model_call_finished" for entry in journal.entries(each["run_id"])) for each in found
        ]
    finally:
        journal.close()
    assert answered == [1] * 60


def results_whole(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "results.jsonl").read_text(encoding="utf-8").split("\n")[:-1]
    return [json.loads(line) for line in lines]


def to_stdout(folder: Path, *more: str) -> tuple[int, list[dict[str, Any]], str]:
    done = treadle("batch", "flow.yaml", "--inputs", "items.jsonl", *more, cwd=folder)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def test_without_an_output_results_go_to_stdout_and_what_has_finished_comes_from_the_journal(tmp_path: Path):
    write(tmp_path, [{"topic": f"t{n}"} for n in range(40)], 100)
    arguments = command("batch", "flow.yaml", "--inputs", "items.jsonl", "--concurrency", "4")
    with (tmp_path / "seen").open("w+", encoding="utf-8") as seen:
        process = subprocess.Popen(arguments, cwd=tmp_path, stdout=seen, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while (tmp_path / "seen").read_text(encoding="utf-8").count("\n") < 10:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.kill()
        process.wait()
    first = [json.loads(line) for line in (tmp_path / "seen").read_text(encoding="utf-8").splitlines()]
    assert [each["line"] for each in first] == list(range(1, len(first) + 1))
    code, found, said = to_stdout(tmp_path)
    assert code == 0, said
    assert found[: len(first)] == first
    assert [each["line"] for each in found] == list(range(1, 41))
    again = to_stdout(tmp_path)
    assert again[:2] == (0, found)
    is_known = all(each["cost_usd"] is not None for each in found)  # that of calls that were cut off is not
    assert f"40/40 done, {'$0' if is_known else 'cost unknown'}, " in again[2]
    assert [each["run_id"] for each in to_stdout(tmp_path, "--restart")[1]] == [each["run_id"] for each in found]
    refused = to_stdout(tmp_path, "--json")
    assert refused[:2] == (2, [])
    assert "--json needs --output: without it stdout has the results" in refused[2]


def test_what_has_failed_on_stdout_is_told_again_or_tried_again(tmp_path: Path):
    write(tmp_path, [{"key": "a", "topic": 1}, {"key": "b"}], flow=FAILS)
    code, found, said = to_stdout(tmp_path)
    assert (code, [each["status"] for each in found]) == (1, ["success", "failed"]), said
    assert to_stdout(tmp_path)[:2] == (1, found)
    code, retried, said = to_stdout(tmp_path, "--retry-failed", "-s", "topic=all")
    assert (code, retried[0]) == (0, found[0]), said
    assert retried[1]["status"] == "success"


def test_ctrl_c_keeps_what_is_done_and_says_how_to_go_on(tmp_path: Path):
    write(tmp_path, [{"topic": f"t{n}"} for n in range(40)], 100)
    arguments = ("batch", "flow.yaml", "--inputs", "items.jsonl", "--output", "results.jsonl", "--concurrency", "4")
    process = subprocess.Popen(command(*arguments), cwd=tmp_path, stderr=subprocess.PIPE, encoding="utf-8")
    deadline = time.monotonic() + 60
    while not (tmp_path / "results.jsonl").exists() or len(results_whole(tmp_path)) < 8:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    left = 40 - len(results(tmp_path))
    assert f"interrupted: {left} lines have no result; the same command goes on with them\n" in stderr
    assert batch(tmp_path).returncode == 0
    assert len(results(tmp_path)) == 40


def test_a_second_batch_on_one_output_says_which_process_writes_to_it(tmp_path: Path):
    write(tmp_path, [{"topic": f"t{n}"} for n in range(8)], 60_000)
    arguments = ("batch", "flow.yaml", "--inputs", "items.jsonl", "--output", "results.jsonl", "--concurrency", "4")
    with subprocess.Popen(command(*arguments), cwd=tmp_path, stderr=subprocess.DEVNULL) as process:
        try:
            wait_for_runs(tmp_path, 4)
            second = batch(tmp_path, "--concurrency", "4")
        finally:
            process.kill()
    assert "ExceptionGroup" not in second.stderr, second.stderr
    run = r"run batch-\w+-\d+ is under way in process \d+; end that one first"
    assert re.search(rf"^error: {run}$", second.stderr, re.MULTILINE), second.stderr
    assert second.returncode == 2


def wait_for_runs(folder: Path, count: int) -> None:
    deadline = time.monotonic() + 60
    while len(json.loads(treadle("runs", "--json", cwd=folder).stdout or "[]")) < count:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_line_or_a_workflow_that_has_changed_is_noticed(tmp_path: Path):
    items = [{"topic": "a"}, {"topic": "b"}]
    write(tmp_path, items)
    assert batch(tmp_path).returncode == 0
    write(tmp_path, [*items, {"topic": "c"}])
    assert batch(tmp_path).returncode == 0, "a line more is no change"
    assert len(results(tmp_path)) == 3
    write(tmp_path, [{"topic": "z"}, *items[1:]])
    done = batch(tmp_path)
    assert done.returncode == 2
    assert done.stderr == (
        "error: results.jsonl:1: is the result of line 1 of the inputs, which has changed since; give the inputs as "
        "they were, name another --output, or give --restart\n"
    )
    write(tmp_path, items, flow=FLOW.replace("Write on", "Sing of"))
    done = batch(tmp_path)
    assert done.returncode == 2
    assert "was made by flow.yaml as it was before it changed; name another --output, or give --restart" in done.stderr
    assert batch(tmp_path, "--restart").returncode == 0
    (tmp_path / "results.jsonl").write_text("something else\n", encoding="utf-8")
    done = batch(tmp_path)
    assert "results.jsonl:1: is no result of treadle batch; name another --output\n" in done.stderr
    assert (tmp_path / "results.jsonl").read_text(encoding="utf-8") == "something else\n"


@pytest.mark.parametrize("restart", [(), ("--restart",)])
@pytest.mark.parametrize("name", ["items.jsonl", "./items.jsonl", "link.jsonl"])
def test_the_inputs_are_never_written_to(name: str, restart: tuple[str, ...], tmp_path: Path):
    write(tmp_path, [{"topic": "a"}])
    (tmp_path / "link.jsonl").symlink_to("items.jsonl")
    before = (tmp_path / "items.jsonl").read_bytes()
    done = treadle("batch", "flow.yaml", "--inputs", "items.jsonl", "--output", name, *restart, cwd=tmp_path)
    says = "is the file of the inputs, items.jsonl, and results would replace them; name another --output"
    assert (done.returncode, done.stderr) == (2, f"error: {name}: {says}\n")
    assert (tmp_path / "items.jsonl").read_bytes() == before


def test_a_child_workflow_that_has_changed_is_a_change(tmp_path: Path):
    """Or some lines would be made by the one, some by the other."""
    flow = (
        "name: x\nconfig: {provider: mock}\nsteps: [{id: s, type: subworkflow, workflow_path: child.yaml, output: o}]\n"
    )
    child = "name: c\nsteps: [{id: a, type: llm_call, prompt: 'On {state.topic}', output: q}]\n"
    (tmp_path / "child.yaml").write_text(child, encoding="utf-8")
    write(tmp_path, [{"topic": "a"}], flow=flow)
    assert batch(tmp_path).returncode == 0
    (tmp_path / "child.yaml").write_text(f"# another comment\n{child}", encoding="utf-8")
    assert batch(tmp_path).returncode == 0
    (tmp_path / "child.yaml").write_text(child.replace("On", "Of"), encoding="utf-8")
    done = batch(tmp_path)
    assert done.returncode == 2
    assert done.stderr == (
        "error: results.jsonl:1: was made by flow.yaml and the files that it names as they were before one of them "
        "changed; name another --output, or give --restart\n"
    )
    assert batch(tmp_path, "--restart").returncode == 0


RESULT = '{"line": 1, "input": "i", "workflow": "w", "status": "success", "cost_usd": null}\n'


@pytest.mark.parametrize(
    "text",
    [
        "mine\n",
        "mine, without an end of line",
        '{"line": 1}\n',
        "[1]\n",
        RESULT.replace("1", "[1]"),
        RESULT.replace("1", "true"),
        RESULT.replace('"success"', "[]"),
        RESULT.replace("null", '"much"'),
        "[" * 100_000 + "\n",
    ],
    ids=lambda text: text[:40],
)
def test_a_file_that_is_no_result_of_a_batch_is_never_replaced(text: str, tmp_path: Path):
    write(tmp_path, [{"topic": "a"}])
    (tmp_path / "results.jsonl").write_text(text, encoding="utf-8")
    for more in ((), ("--restart",)):
        done = batch(tmp_path, *more)
        assert (done.returncode, done.stderr) == (
            2,
            "error: results.jsonl:1: is no result of treadle batch; name another --output\n",
        )
        assert (tmp_path / "results.jsonl").read_text(encoding="utf-8") == text


@pytest.mark.parametrize("text", ["", '{"li', '{"line": 1, "ke'])
def test_an_empty_or_an_unfinished_file_of_results_is_begun_anew(text: str, tmp_path: Path):
    write(tmp_path, [{"topic": "a"}])
    for more in ((), ("--restart",)):
        (tmp_path / "results.jsonl").write_text(text, encoding="utf-8")
        done = batch(tmp_path, *more)
        assert done.returncode == 0, done.stderr
        assert [each["status"] for each in results(tmp_path)] == ["success"]


def test_one_budget_holds_all_runs_and_a_larger_one_goes_on(tmp_path: Path):
    write(
        tmp_path,
        [{"topic": f"t{n}"} for n in range(10)],
        flow=FLOW.replace("max_retries", "responses_file: r.json, max_retries"),
    )
    replies = {"_version": 2, "ask": {"content": "x", "cost_usd": 0.1}}
    (tmp_path / "r.json").write_text(json.dumps(replies), encoding="utf-8")
    done = batch(tmp_path, "--budget", "0.35", "--concurrency", "4", "--json")
    assert done.returncode == 1
    assert "[BUDGET] the batch has a budget of $0.35, $0.3 of it spent; asked for: at most $0.1" in done.stderr
    assert (
        "ended by its budget: 7 lines have no result; the same command goes on with them, with a larger" in done.stderr
    )
    summary = json.loads(done.stdout)
    assert (summary["done"], summary["total_cost_usd"]) == (3, 0.3), "and no 0.30000000000000004"
    again = batch(tmp_path, "--budget", "0.35", "--json")
    assert "$0.3 of it spent" in again.stderr
    assert json.loads(again.stdout)["done"] == 3
    more = batch(tmp_path, "--budget", "1.0")
    assert more.returncode == 0, more.stderr
    assert [each["line"] for each in results(tmp_path)] == list(range(1, 11))
    assert "10/10 done, " in more.stderr
    assert "$1.00 of $1.00" in more.stderr


def test_the_total_is_unknown_where_one_cost_is(tmp_path: Path):
    write(tmp_path, [{"topic": "a"}, {"topic": "b"}])
    assert batch(tmp_path).returncode == 0
    first, second = results(tmp_path)
    lines = [{**first, "cost_usd": 0.129}, {**second, "cost_usd": None}]
    (tmp_path / "results.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in lines), encoding="utf-8")
    done = batch(tmp_path, "--json")
    assert "2/2 done, cost unknown (at least $0.129), " in done.stderr
    summary = json.loads(done.stdout)
    assert (summary["total_cost_usd"], summary["known_cost_usd"]) == (None, 0.129)
    assert "2/2 done, cost unknown (at least $0.129), budget $1.00, " in batch(tmp_path, "--budget", "1").stderr


def test_what_ctrl_c_cuts_off_has_an_unknown_cost(tmp_path: Path):
    write(tmp_path, [{"topic": "a"}, {"topic": "b"}], 60_000)
    arguments = ("batch", "flow.yaml", "--inputs", "items.jsonl", "--output", "results.jsonl", "--json")
    process = subprocess.Popen(
        command(*arguments), cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8"
    )
    wait_for_runs(tmp_path, 2)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "0/2 done, cost unknown, " in stderr
    assert json.loads(stdout)["total_cost_usd"] is None


GATED = """\
name: ask
config: {provider: mock}
state: {topic: none}
steps:
  - {id: ask, type: llm_call, prompt: "Write on {state.topic}", output: text}
  - {id: review, type: approval_gate, depends_on: [ask], question: "Good?", output: decision}
"""


def test_paused_runs_are_told_with_what_answers_them_and_taken_in_once_they_have_ended(tmp_path: Path):
    write(tmp_path, [{"key": "a"}, {"key": "b"}, {"key": "c"}], flow=GATED)
    done = batch(tmp_path, "--json")
    assert done.returncode == 0, done.stderr
    assert "0/3 done, 3 paused, " in done.stderr
    runs = [each["run_id"] for each in results(tmp_path)]
    told = (
        f"paused: line 2 (b)\nwaiting: step 'review': Good? (approved, rejected)\n    treadle resume {runs[1]} "
        f"--approve review\n    treadle resume {runs[1]} --reject review\n"
    )
    assert told in done.stderr
    assert "the same command takes in what has been finished since\n" in done.stderr
    summary = json.loads(done.stdout)
    assert (summary["lines"], summary["done"], summary["paused"], summary["failed"]) == (3, 0, 3, [])
    answered = treadle("resume", runs[1], "--approve", "review", cwd=tmp_path)
    assert answered.returncode == 0, answered.stderr
    before = results(tmp_path)
    again = batch(tmp_path, "--json")
    assert "1/3 done, 2 paused, " in again.stderr
    after = results(tmp_path)
    assert (after[0], after[2]) == (before[0], before[2]), "what is still paused is not run anew"
    assert (after[1]["status"], after[1]["output"]["decision"]) == ("success", "approved")
    assert "pending" not in after[1]
    assert json.loads(again.stdout)["done"] == 1


def test_what_cannot_be_written_is_told_before_anything_is_run(tmp_path: Path):
    write(tmp_path, [{"topic": "a"}])
    done = treadle("batch", "flow.yaml", "--inputs", "items.jsonl", "--output", "no/r.jsonl", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, "error: no/r.jsonl: there is no folder no\n")


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a pseudo-terminal")
def test_on_a_terminal_one_line_is_drawn_anew(tmp_path: Path):
    write(tmp_path, [{"topic": f"t{n}"} for n in range(12)], 150)
    ours, theirs = os.openpty()
    arguments = ("batch", "flow.yaml", "--inputs", "items.jsonl", "--output", "results.jsonl", "--concurrency", "3")
    process = subprocess.Popen(command(*arguments), cwd=tmp_path, stderr=theirs)
    os.close(theirs)
    seen = b""
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:
            break
        if not piece:
            break
        seen += piece
    os.close(ours)
    assert process.wait(timeout=60) == 0
    assert b"\r" in seen
    assert b"/12 done" in seen
    assert b" left, $0" in seen
