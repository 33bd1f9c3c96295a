"""Stored conversations: they go on in the next run, are whole at every moment, and no turn is lost."""

from __future__ import annotations

import json
import multiprocessing
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import treadle_conversation.plugin
import treadle_llm_call.plugin
from treadle import RunResult, StateError
from treadle.testing import offering, run_workflow, scripted
from treadle_conversation.files import FOLDER, StoredFile

STORED = {"key": "state.chat", "store": "{state.who}"}
FILE = FOLDER / "ada.json"


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


async def run(provider: Any, *steps: dict[str, Any], **state: Any) -> RunResult:
    plugins = {
        "conversation": treadle_conversation.plugin,
        "llm_call": treadle_llm_call.plugin,
        "double": offering({"provider": {"scripted": provider}}),
    }
    document = {
        "name": "t",
        "config": {"provider": "scripted", "max_retries": 0},
        "state": {"who": "ada", **state},
        "steps": list(steps),
    }
    return await run_workflow(document, plugins=plugins)


def call(name: str = "turn", **fields: Any) -> dict[str, Any]:
    return {"id": name, "type": "llm_call", "conversation": STORED, "prompt": "Hello", **fields}


def texts(provider: Any) -> list[str]:
    return [each.text for each in provider.requests[-1].messages]


async def test_a_chat_goes_on_in_the_next_run() -> None:
    first = await run(scripted("Hi."), call(prompt="I am Ada.", system_prompt="Be kind."))
    assert json.loads(FILE.read_text(encoding="utf-8")) == first.final_state["chat"]
    provider = scripted("You are Ada.")
    second = await run(provider, call(prompt="Who am I?"))
    assert texts(provider) == ["Be kind.", "I am Ada.", "Hi.", "Who am I?"]
    assert json.loads(FILE.read_text(encoding="utf-8")) == second.final_state["chat"]


async def test_steps_of_one_run_go_on_with_it_too_and_another_name_is_another_conversation() -> None:
    provider = scripted("1", "2")
    await run(provider, call("one"), call("two", depends_on=["one"]))
    assert texts(provider) == ["Hello", "1", "Hello"]
    provider = scripted("1")
    await run(provider, call(), who="bob")
    assert texts(provider) == ["Hello"]
    assert sorted(each.name for each in FOLDER.glob("*.json")) == ["ada.json", "bob.json"]


async def test_what_the_state_has_begins_it_and_later_gives_only_the_budget_and_the_policy() -> None:
    begin = [{"role": "user", "content": "Old."}, {"role": "assistant", "content": "Yes."}]
    provider = scripted("ok")
    await run(provider, call(), chat={"messages": begin})
    assert texts(provider) == ["Old.", "Yes.", "Hello"]
    provider = scripted("ok")
    result = await run(provider, call(), chat={"messages": begin, "token_budget": 20})
    assert texts(provider) == ["Hello", "ok", "Hello"]
    assert result.final_state["chat"]["token_budget"] == 20


async def test_a_failed_turn_is_not_in_the_file() -> None:
    await run(scripted("ok"), call())
    before = FILE.read_bytes()
    failed = await run(scripted("no JSON"), call(response_schema={"type": "json_object"}))
    assert failed.status == "failed"
    assert FILE.read_bytes() == before


async def test_where_another_run_has_gone_on_with_it_the_step_fails_and_a_retry_goes_on_from_there() -> None:
    await run(scripted("ok"), call())
    stale = StoredFile.read("ada")
    await run(scripted("other"), call(prompt="Meanwhile"))
    with pytest.raises(StateError, match="was gone on with by another run meanwhile") as caught:
        stale.write({"messages": []})
    assert caught.value.transient
    assert "Meanwhile" in FILE.read_text(encoding="utf-8")


def _add(name: str, times: int) -> None:
    while times:
        file = StoredFile.read("many")
        said = (file.value or {"messages": []})["messages"]
        with suppress(StateError):  # another was quicker
            file.write({"messages": [*said, name]})
            times -= 1


def test_of_processes_that_write_at_once_no_turn_is_lost(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_add, args=(str(n), 20)) for n in range(3)]
    for each in writers:
        each.start()
    for each in writers:
        each.join()
    assert [each.exitcode for each in writers] == [0, 0, 0]
    assert sorted(StoredFile.read("many").value["messages"]) == sorted(str(n) for n in range(3) for _ in range(20))


async def test_the_file_is_its_owners_alone_and_nothing_else_is_left_beside_it() -> None:
    await run(scripted("Grüße 世界"), call())
    assert stat.S_IMODE(FILE.stat().st_mode) == 0o600
    assert sorted(each.name for each in FOLDER.iterdir()) == ["ada.json", "ada.lock"]
    assert "Grüße 世界" in FILE.read_text(encoding="utf-8")


async def test_a_write_that_fails_leaves_the_old_file_and_no_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    await run(scripted("ok"), call())
    before = FILE.read_bytes()

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    result = await run(scripted("ok"), call(output="said"))
    assert result.step_results["turn"].error == (f"cannot write the conversation to {FILE}: No space left on device")
    assert "said" not in result.final_state
    assert FILE.read_bytes() == before
    assert sorted(each.name for each in FOLDER.iterdir()) == ["ada.json", "ada.lock"]


@pytest.mark.parametrize("who", ["", "../etc", "a/b", ".hidden", "x" * 101, "a b", "é"])
async def test_a_name_that_is_none_for_a_file_is_refused_before_a_call(who: str) -> None:
    provider = scripted("never")
    result = await run(provider, call(), who=who)
    assert f"{who!r} cannot be the name of a stored conversation" in str(result.step_results["turn"].error)
    assert provider.requests == []
    assert not FOLDER.exists()


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("{", "ada.json is not JSON: "),
        ("5", "ada.json is no conversation but a number"),
        ('[{"role": "user"}]', "ada.json[0].content is missing"),
    ],
)
async def test_a_file_that_a_person_broke_is_told_with_its_place_and_stays(text: str, error: str) -> None:
    FOLDER.mkdir(parents=True)
    FILE.write_text(text, encoding="utf-8")
    provider = scripted("never")
    result = await run(provider, call())
    assert error in str(result.step_results["turn"].error)
    assert provider.requests == []
    assert FILE.read_text(encoding="utf-8") == text


async def test_an_unreadable_one_is_told() -> None:
    FILE.mkdir(parents=True)
    result = await run(scripted("never"), call())
    assert result.step_results["turn"].error == f"cannot read the conversation in {FILE}: Is a directory"
