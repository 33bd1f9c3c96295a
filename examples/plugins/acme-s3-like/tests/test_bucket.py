"""The fetcher keeps the contract, and gets objects into a model call."""

from __future__ import annotations

import pytest

import acme_s3_like.plugin
import treadle_llm_call.plugin
import treadle_replay.plugin
from acme_s3_like.checks import contract_checks
from acme_s3_like.fetcher import BucketFetcher
from treadle import AttachmentRequest, ToolError
from treadle.testing import FakeSandbox, check_plugin, run_workflow

CHECKS = contract_checks()
FLOW = """
name: look
config: {provider: mock}
state: {name: a.png}
steps:
  - id: look
    type: llm_call
    prompt: What is it?
    attachments: [{source: "s3-like://scans/{state.name}"}]
"""
PLUGINS = {"llm_call": treadle_llm_call.plugin, "replay": treadle_replay.plugin, "bucket": acme_s3_like.plugin}


async def test_the_plugin_keeps_the_contract() -> None:
    await check_plugin("acme_s3_like.plugin", offers={"attachment_fetcher": ["s3-like"]})


@pytest.mark.parametrize("name", CHECKS)
async def test_what_it_offers_keeps_the_contract(name: str) -> None:
    await CHECKS[name]()


async def test_a_step_gets_objects_by_their_scheme() -> None:
    store = FakeSandbox(files={"buckets/scans/a.png": b"\x89PNG\r\n\x1a\n"})
    result = await run_workflow(FLOW, plugins=PLUGINS, sandbox=store)
    assert result.status == "success", result.error
    assert result.step_results["look"].to_json()["attachment_count"] == 1
    assert store.reads == ["buckets/scans/a.png"]


@pytest.mark.parametrize("source", ["s3-like://scans", "s3-like://scans/", "s3-like://scans/../a.png"])
async def test_what_names_no_object_is_refused(source: str) -> None:
    with pytest.raises(ToolError, match="is not of the form s3-like://bucket/key"):
        await BucketFetcher().fetch(AttachmentRequest(source=source), FakeSandbox())
