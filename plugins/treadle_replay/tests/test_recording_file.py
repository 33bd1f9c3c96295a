"""The file of a recording: who may write it, and what is in it afterwards."""

import json
import os
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from treadle import ConfigurationError, ModelRequest, ModelResponse, UserMessage
from treadle.testing import reply
from treadle_replay.calls import AbandonedCalls, ModelCall
from treadle_replay.errors import RecordingError
from treadle_replay.file import RecordingFile
from treadle_replay.locking import take
from treadle_replay.responses import read_recording


def _call(text: str, key: str = "a", *said: str, response: ModelResponse | None = None) -> ModelCall:
    messages = tuple(UserMessage.of(each) for each in (said or ("Hi",)))
    request = ModelRequest(model="m", messages=messages, key=key)
    return ModelCall(key, request, response or reply(text), 12.34, {"p": "m"})


def _texts(path: Path) -> dict[str, list[str]]:
    return {key: [each.text for each in replies] for key, replies in read_recording(path).replies.items()}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rec.json"


def test_the_file_is_there_from_the_beginning_and_nothing_else_at_the_end(path: Path) -> None:
    file = RecordingFile(path)
    assert json.loads(path.read_text()) == {"_format": "treadle", "_version": 3}
    file.add([_call("x")])
    assert _texts(path) == {"a": ["x"]}
    file.close()
    file.close()
    assert [each.name for each in path.parent.iterdir()] == ["rec.json"]
    assert "_under_way" not in json.loads(path.read_text())


def test_one_call_stands_for_itself_and_several_are_a_list_and_keys_are_sorted(path: Path) -> None:
    file = RecordingFile(path)
    file.add([_call("1", "b"), _call("2", "a"), _call("3", "b")])
    file.close()
    data = json.loads(path.read_text())
    assert list(data) == ["_format", "_version", "_providers", "a", "b"]
    assert (data["a"]["content"], [each["content"] for each in data["b"]]) == ("2", ["1", "3"])
    assert data["a"]["latency_ms"] == 12.3
    assert path.read_text().endswith("}\n")


def test_what_is_recorded_anew_is_replaced_key_by_key(path: Path) -> None:
    for made in (["old", "old too"], ["new"]):
        file = RecordingFile(path)
        file.add([_call(text, "a") for text in made])
        if len(made) == 2:
            file.add([_call("kept", "b")])
        file.close()
    assert _texts(path) == {"a": ["new"], "b": ["kept"]}


def test_recordings_under_way_at_once_are_put_together(path: Path) -> None:
    before = RecordingFile(path)
    before.add([_call("old")])
    before.close()
    one, two = RecordingFile(path), RecordingFile(path)
    one.add([_call("one")])
    two.add([_call("two")])
    one.close()
    two.add([_call("two more"), _call("other", "b")])
    two.close()
    assert _texts(path) == {"a": ["one", "two", "two more"], "b": ["other"]}
    assert [each.name for each in path.parent.iterdir()] == ["rec.json"]


def test_what_a_dead_recorder_has_left_is_cleared_away(path: Path) -> None:
    dead = RecordingFile(path)
    dead.add([_call("old")])
    assert dead._handle is not None
    os.close(dead._handle)  # as the system does for a process that died
    path.with_name(".rec.json-abc.writing").write_text("half of it")
    file = RecordingFile(path)
    file.add([_call("new")])
    file.close()
    assert _texts(path) == {"a": ["new"]}
    assert [each.name for each in path.parent.iterdir()] == ["rec.json"]


def test_a_lock_that_cannot_be_had_is_an_error_after_a_while(path: Path) -> None:
    file = RecordingFile(path, wait=0.1)
    handle = take(path.with_name(".rec.json.lock"))
    assert handle is not None
    with pytest.raises(RecordingError) as caught:
        file.add([_call("x")])
    assert str(caught.value) == (
        f"{path}: another process has held its lock (.rec.json.lock) for 0.1 s; end that one, or record into another "
        "file"
    )
    os.close(handle)
    file.add([_call("x")])
    file.close()
    assert _texts(path) == {"a": ["x"]}


def test_a_file_that_is_something_else_stays_as_it_is(path: Path) -> None:
    for text, told in (("[]", "must be a JSON object"), ("hello", "not JSON"), ('{"a": 5}', "key 'a': must be a text")):
        path.write_text(text)
        with pytest.raises(ConfigurationError, match=told):
            RecordingFile(path)
        assert path.read_text() == text


def test_a_file_by_hand_or_of_agentloom_is_gone_on_with(path: Path) -> None:
    path.write_text('{"_version": 2, "a": "by hand", "b": ["one", {"content": "two"}]}')
    file = RecordingFile(path)
    file.add([_call("new")])
    file.close()
    assert _texts(path) == {"a": ["new"], "b": ["one", "two"]}


def test_the_rights_of_a_file_stay_and_a_link_is_followed(path: Path, tmp_path: Path) -> None:
    path.write_text("{}")
    path.chmod(0o640)
    link = tmp_path / "link.json"
    link.symlink_to(path)
    file = RecordingFile(link)
    file.add([_call("x")])
    file.close()
    assert link.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert _texts(path) == {"a": ["x"]}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(RecordingError, match="cannot be locked"):
        RecordingFile(tmp_path / "rec.json")


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match=r"no/rec\.json: there is no folder"):
        RecordingFile(tmp_path / "no" / "rec.json")


def test_a_long_history_is_written_once(path: Path) -> None:
    """A loop's requests grow with every call; the file grows with what they add."""
    file = RecordingFile(path)
    said = [f"message {number}: {'x' * 100}" for number in range(60)]
    file.add([_call("y", "a", *said[: number + 1]) for number in range(60)])
    file.close()
    assert path.read_text().count("message 0:") == 1
    whole = [each.request for each in read_recording(path).replies["a"]]
    assert [len(each["messages"]) for each in whole if each] == list(range(1, 61))


def test_abandoned_calls_are_marked_where_they_stand(path: Path) -> None:
    file = RecordingFile(path)
    first, second = _call("1"), _call("2")
    file.add([first])
    file.add([AbandonedCalls((first,)), second])
    file.close()
    assert [(each.text, each.abandoned) for each in read_recording(path).replies["a"]] == [("1", True), ("2", False)]


def test_text_of_every_kind_comes_back_as_it_was(path: Path) -> None:
    file = RecordingFile(path)
    text = 'ü 😀 "\\" \n  "a": {\n\x00vector 0'
    file.add([_call(text), _call("x", 'k\n"')])
    file.close()
    assert _texts(path) == {"a": [text], 'k\n"': ["x"]}


def test_an_entry_whose_history_is_gone_is_an_error(path: Path) -> None:
    file = RecordingFile(path)
    file.add([_call("1", "a", "x"), _call("2", "a", "x", "y")])
    file.close()
    data: Any = json.loads(path.read_text())
    data["a"] = data["a"][1]
    path.write_text(json.dumps(data))
    with pytest.raises(
        ConfigurationError, match="key 'a': 'more_messages' goes on from the request of the entry before"
    ):
        read_recording(path)


def test_unknown_counts_stay_unknown(path: Path) -> None:
    file = RecordingFile(path)
    unknown = replace(reply("x"), usage=type(reply("x").usage)(), cost_usd=None)
    file.add([_call("x", response=unknown)])
    file.close()
    (kept,) = read_recording(path).replies["a"]
    assert kept.usage is not None
    assert (kept.usage.prompt_tokens, kept.cost_usd) == (None, None)
