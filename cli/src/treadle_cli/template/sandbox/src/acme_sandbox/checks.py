"""What ``treadle plugins check`` and the tests hold this plugin to. Nothing else imports it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from acme_sandbox.sandbox import AcmeSandbox, AcmeSandboxBlock
from treadle.testing import check_sandbox

__all__ = ["contract_checks"]


def contract_checks() -> Mapping[str, Callable[[], Awaitable[None]]]:
    """Each check with what it is about."""
    return {"sandbox my_sandbox": _check}


async def _check() -> None:
    with TemporaryDirectory() as folder:
        await check_sandbox(
            lambda base: AcmeSandbox(AcmeSandboxBlock(), base),
            Path(folder),
            refused_path="../outside.txt",
            refused_command="echo hello",
            refused_url="https://example.com/",
        )
