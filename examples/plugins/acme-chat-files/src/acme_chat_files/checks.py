"""What ``treadle plugins check`` and the tests hold this plugin to. Nothing else imports it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from acme_chat_files.memory import ChatFiles
from treadle.testing import check_memory

__all__ = ["contract_checks"]


async def _check_files() -> None:
    with TemporaryDirectory() as folder:
        made = iter(range(1_000_000))
        await check_memory(lambda: ChatFiles(Path(folder) / str(next(made))))


def contract_checks() -> Mapping[str, Callable[[], Awaitable[None]]]:
    """Each check with what it is about."""
    return {"memory acme_chat_files": _check_files}
