"""The file of replies: what it may hold, and what is said where it may not."""

import json
from pathlib import Path
from typing import Any

import pytest

from treadle import ConfigurationError, ModelRequest
from treadle_replay.pool import Pool
from treadle_replay.responses import RecordedReply, parse_recording, read_recording


def _message(data: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        parse_recording(data, source="replies.json")
    return str(caught.value)


def test_a_file_of_version_2_with_metadata_is_read(tmp_path: Path) -> None:
    path = tmp_path / "replies.json"
    reply = {
        "content": "héllo",
        "model": "m-1",
        "provider": "openai",
        "usage": {"prompt_tokens": 3, "completion_tokens": 4, "reasoning_tokens": 1, "total_tokens": 7},
        "cost_usd": 0.5,
        "latency_ms": 12.5,
        "finish_reason": "stop",
        "tool_calls": [{"id": "c1", "name": "look", "arguments": {"at": "it"}}],
        "request_hash": "ab",
    }
    path.write_text(json.dumps({"_version": 2, "_made_by": "hand", "one": reply, "two": ["a", "b"]}), encoding="utf-8")
    assert read_recording(path).replies == {
        "one": (RecordedReply.model_validate(reply),),
        "two": (RecordedReply(content="a"), RecordedReply(content="b")),
    }


def test_a_byte_order_mark_is_no_fault(tmp_path: Path) -> None:
    path = tmp_path / "replies.json"
    path.write_bytes(b"\xef\xbb\xbf" + '{"a": "ü"}'.encode())
    assert read_recording(path).replies["a"][0].text == "ü"


def test_a_list_is_played_in_order_and_its_last_reply_is_repeated() -> None:
    pool = Pool(parse_recording({"a": ["1", "2"], "b": "x"}, source="here"))
    chosen = [pool.choose(ModelRequest(model="m", messages=(), key=key)) for key in "aabaac"]
    assert [each and each.reply.text for each in chosen] == ["1", "2", "x", "2", "2", None]


@pytest.mark.parametrize("content", [{"a": [1, "ü"]}, ["ü", None]])
def test_content_that_is_an_object_or_a_list_stands_for_its_json_text(content: Any) -> None:
    text = RecordedReply(content=content).text
    assert json.loads(text) == content
    assert "ü" in text


def test_a_json_fault_is_named_with_file_line_and_column(tmp_path: Path) -> None:
    path = tmp_path / "replies.json"
    path.write_text('{\n  "a": "b",\n  c\n}', encoding="utf-8")
    with pytest.raises(ConfigurationError) as caught:
        read_recording(path)
    assert str(caught.value).startswith(f"{path}:3:3: not JSON: ")


def test_a_key_given_twice_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "replies.json"
    path.write_text('{"a": "1", "a": "2"}', encoding="utf-8")
    with pytest.raises(ConfigurationError, match="key 'a' is given twice in one object"):
        read_recording(path)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "none.json"
    with pytest.raises(ConfigurationError) as caught:
        read_recording(path)
    assert str(caught.value) == f"{path}: cannot be read: No such file or directory"
    path.write_bytes(b'{"a": "\xff"}')
    with pytest.raises(ConfigurationError, match="not UTF-8 text: invalid start byte at byte 7"):
        read_recording(path)


@pytest.mark.parametrize("version", [1, 0, "2", 2.0, None, True])
def test_an_old_or_odd_version_says_record_it_again(version: Any) -> None:
    text = _message({"_version": version, "a": "b"})
    assert text == (
        f"replies.json: _version is {json.dumps(version)}, and only 2 can be read; record it again: treadle run FILE "
        "--record RECORDING"
    )


def test_a_newer_version_says_upgrade() -> None:
    assert _message({"_version": 3}).endswith("newer than the 2 that can be read; upgrade treadle-replay")


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ([], "replies.json: must be a JSON object of replies by step id, not a list"),
        ({"a": 1}, "replies.json: key 'a': must be a text, an object or a list of them, not a number"),
        ({"a": ["x", None]}, "replies.json: key 'a'[1]: must be a text, an object or a list of them, not null"),
        ({"a": []}, "replies.json: key 'a': an empty list holds no reply"),
        ({"a": {}}, "replies.json: key 'a': needs content, tool_calls or embeddings"),
        ({"a": {"contnet": "x", "content": "y"}}, "key 'a': unknown field 'contnet'; did you mean 'content'?"),
        ({"a": {"content": 5}}, "replies.json: key 'a': content: must be a text, an object or a list"),
        (
            {"a": {"content": "", "usage": {"prompt_token": 1}}},
            "key 'a': unknown field 'usage.prompt_token'; did you mean 'prompt_tokens'?",
        ),
        ({"a": {"content": "", "usage": {"prompt_tokens": "1"}}}, "key 'a': usage.prompt_tokens: Input should be a"),
        ({"a": {"content": "", "cost_usd": -1}}, "key 'a': cost_usd: Input should be greater than or equal to 0"),
        ({"a": {"tool_calls": [{"name": "x"}]}}, "key 'a': tool_calls.0.id: Field required"),
        (
            {"a": {"tool_calls": [{"id": "1", "name": "x", "arguments": [1]}]}},
            "key 'a': tool_calls.0.arguments: must be an object, or its JSON text",
        ),
    ],
)
def test_a_wrong_reply_is_named_by_file_key_and_field(data: Any, expected: str) -> None:
    assert expected in _message(data)


def test_all_faults_are_told_at_once() -> None:
    assert len(_message({"a": 1, "b": {"content": 1, "modl": "m"}, "c": "fine"}).splitlines()) == 3


def test_null_means_left_out() -> None:
    data = {"content": "x", "model": None, "usage": {"reasoning_tokens": None}, "tool_calls": None, "latency_ms": None}
    (reply,) = parse_recording({"a": data}, source="here").replies["a"]
    assert reply.usage is not None
    assert reply.usage.reasoning_tokens == 0
