"""The tools ``file_read`` and ``file_write``."""

from pathlib import Path
from typing import Any

import pytest

from treadle import Tool, ToolContext, ToolError
from treadle_tools.files import FileReadTool, FileWriteTool


async def _error(tool: Tool, arguments: dict[str, Any], context: ToolContext) -> ToolError:
    with pytest.raises(ToolError) as caught:
        await tool.call(arguments, context)
    return caught.value


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "latin-1"])
async def test_what_is_written_is_read_back_as_it_was(real: ToolContext, base: Path, encoding: str) -> None:
    content = "ü\r\nline\n"
    arguments = {"path": "new/ä.txt", "content": content, "encoding": encoding}
    written = await FileWriteTool().call(arguments, real)
    assert written == {"written": len(content.encode(encoding)), "path": str(base / "new/ä.txt")}
    assert await FileReadTool().call({"path": "new/ä.txt", "encoding": encoding}, real) == content


async def test_a_file_is_replaced(real: ToolContext, base: Path) -> None:
    (base / "a").write_text("long old content", encoding="utf-8")
    await FileWriteTool().call({"path": "a", "content": "new"}, real)
    assert (base / "a").read_text(encoding="utf-8") == "new"


async def test_a_missing_file_is_named_as_given_with_the_directory(real: ToolContext, base: Path) -> None:
    error = await _error(FileReadTool(), {"path": "sub/../nöne.txt"}, real)
    assert str(error) == f"file_read: there is no file 'sub/../nöne.txt' (looked for 'nöne.txt' in {base})"
    assert error.transient is False


async def test_a_binary_file_is_no_text(real: ToolContext, base: Path) -> None:
    (base / "a.png").write_bytes(b"\x89PNG\xff")
    error = await _error(FileReadTool(), {"path": "a.png"}, real)
    assert str(error) == "file_read: 'a.png' is not utf-8 text: invalid start byte at byte 0"
    assert error.transient is False


async def test_a_directory_can_be_neither_read_nor_written(real: ToolContext, base: Path) -> None:
    (base / "d").mkdir()
    for tool, arguments, done in (
        (FileReadTool(), {"path": "d"}, "read"),
        (FileWriteTool(), {"path": "d", "content": ""}, "written"),
    ):
        error = await _error(tool, arguments, real)
        assert str(error) == f"{tool.name}: 'd' (it stands for {base}/d) cannot be {done}: Is a directory"
        assert error.transient is False


async def test_a_file_in_the_place_of_a_directory_is_said(real: ToolContext, base: Path) -> None:
    (base / "f").write_bytes(b"")
    error = await _error(FileWriteTool(), {"path": "f/g", "content": ""}, real)
    assert str(error).startswith(f"file_write: 'f/g' (it stands for {base}/f/g) cannot be written: ")
    assert error.transient is False


@pytest.mark.parametrize(("number", "transient"), [(13, False), (28, True)])
async def test_a_full_disk_may_be_tried_again_and_a_refusal_not(
    recorded: ToolContext, recording: Any, number: int, transient: bool
) -> None:
    recording.fails = OSError(number, "Because")
    for tool, arguments in ((FileReadTool(), {"path": "a"}), (FileWriteTool(), {"path": "a", "content": ""})):
        error = await _error(tool, arguments, recorded)
        assert "'a' (it stands for /base/a) cannot be " in str(error)
        assert str(error).endswith(": Because")
        assert error.transient is transient


@pytest.mark.parametrize("encoding", ["klingon", "hex"])
async def test_an_unknown_encoding_is_named(real: ToolContext, base: Path, encoding: str) -> None:
    (base / "a").write_bytes(b"")
    for tool, arguments in ((FileReadTool(), {"path": "a"}), (FileWriteTool(), {"path": "a", "content": "x"})):
        error = await _error(tool, {**arguments, "encoding": encoding}, real)
        assert str(error) == f"{tool.name}: argument 'encoding': there is no text encoding '{encoding}'"
        assert error.transient is False
    assert (base / "a").read_bytes() == b""


async def test_content_that_the_encoding_lacks_is_not_written(real: ToolContext, base: Path) -> None:
    error = await _error(FileWriteTool(), {"path": "a", "content": "aü", "encoding": "ascii"}, real)
    assert str(error) == (
        "file_write: argument 'content' cannot be written in ascii: ordinal not in range(128) at character 1"
    )
    assert error.transient is False
    assert not (base / "a").exists()
