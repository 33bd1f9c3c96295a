"""The sandbox ``policy`` is held to the contract of sandboxes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from treadle.testing import check_plugin, check_sandbox
from treadle_sandbox.block import PolicyBlock
from treadle_sandbox.policy import PolicySandbox


async def test_the_plugin() -> None:
    await check_plugin("treadle_sandbox.plugin", offers={"sandbox": ["policy"]})


async def test_files_commands_and_requests(tmp_path: Path, serve: Any) -> None:
    def answer(head: str, body: bytes) -> list[bytes]:
        return [b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npage"]

    async with serve(answer) as url:
        await check_sandbox(
            lambda base: PolicySandbox(PolicyBlock(), base),
            tmp_path,
            command="echo hi",
            output=b"hi\n",
            slow_command="sleep 60",
            url=url,
        )
