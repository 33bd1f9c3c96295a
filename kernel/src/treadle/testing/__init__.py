"""The test kit of plugin authors: doubles, workflows without installation, suites that hold a plugin to its contract.

.. code-block:: python

    from treadle.testing import check_step, run_workflow


    async def test_shout_keeps_the_contract():
        await check_step(Shout, {"text": "hi", "output": "said"}, expect={"said": "HI"})


    async def test_it_shouts():
        result = await run_workflow(FLOW, plugins={"acme": acme_treadle.plugin})
        assert result.final_state["said"] == "HI"

A suite is a plain async function, run under trio, that returns nothing or raises AssertionError with a sentence:
what the plugin did, and what the contract says of it. The page docs/plugins/testing.md shows each of them.

Names are loaded when they are first touched: pytest imports :mod:`treadle.testing.pytest_plugin` wherever treadle is
installed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treadle._plugins.objects import offering
    from treadle.testing.cancellation import BlockingWarning, check_cancellation
    from treadle.testing.context import FakeContext
    from treadle.testing.doubles import (
        EchoProvider,
        MemoryJournal,
        RecordingObserver,
        Reply,
        ScriptedProvider,
        reply,
        scripted,
    )
    from treadle.testing.fetchers import check_attachment_fetcher
    from treadle.testing.memories import check_memory
    from treadle.testing.plugins import check_plugin
    from treadle.testing.providers import check_provider
    from treadle.testing.running import run_workflow
    from treadle.testing.sandbox import FakeSandbox
    from treadle.testing.sandboxes import check_sandbox
    from treadle.testing.steps import check_step
    from treadle.testing.tools import check_tool
    from treadle.testing.trimming import check_trim_policy

__all__ = [
    "BlockingWarning",
    "EchoProvider",
    "FakeContext",
    "FakeSandbox",
    "MemoryJournal",
    "RecordingObserver",
    "Reply",
    "ScriptedProvider",
    "check_attachment_fetcher",
    "check_cancellation",
    "check_memory",
    "check_plugin",
    "check_provider",
    "check_sandbox",
    "check_step",
    "check_tool",
    "check_trim_policy",
    "offering",
    "reply",
    "run_workflow",
    "scripted",
]

_HOMES = {
    "treadle._plugins.objects": "offering",
    "treadle.testing.cancellation": "BlockingWarning check_cancellation",
    "treadle.testing.context": "FakeContext",
    "treadle.testing.doubles": "EchoProvider MemoryJournal RecordingObserver Reply ScriptedProvider reply scripted",
    "treadle.testing.fetchers": "check_attachment_fetcher",
    "treadle.testing.memories": "check_memory",
    "treadle.testing.plugins": "check_plugin",
    "treadle.testing.providers": "check_provider",
    "treadle.testing.running": "run_workflow",
    "treadle.testing.sandbox": "FakeSandbox",
    "treadle.testing.sandboxes": "check_sandbox",
    "treadle.testing.steps": "check_step",
    "treadle.testing.tools": "check_tool",
    "treadle.testing.trimming": "check_trim_policy",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'treadle.testing' has no attribute '{name}'")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value
