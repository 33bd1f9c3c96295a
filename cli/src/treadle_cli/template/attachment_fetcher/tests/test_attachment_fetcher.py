"""The plugin keeps the contract, and does what its README says."""

from __future__ import annotations

import pytest

from acme_attachment_fetcher.checks import contract_checks
from acme_attachment_fetcher.fetcher import AcmeAttachmentFetcher
from treadle import AttachmentRequest, ToolError
from treadle.testing import FakeSandbox, check_plugin

CHECKS = contract_checks()


async def test_the_plugin_keeps_the_contract() -> None:
    await check_plugin(
        "acme_attachment_fetcher.plugin",
        offers={"attachment_fetcher": ["my-attachment-fetcher"], "tool": ["my_attachment_fetcher_preview"]},
    )


@pytest.mark.parametrize("name", CHECKS)
async def test_what_it_offers_keeps_the_contract(name: str) -> None:
    await CHECKS[name]()


async def test_a_file_that_is_not_what_it_says_is_refused() -> None:
    request = AttachmentRequest(source="my-attachment-fetcher:a.pdf", type="image")
    sandbox = FakeSandbox(files={"media/a.pdf": b"%PDF-1.7"})
    with pytest.raises(ToolError, match="is application/pdf, not of type image"):
        await AcmeAttachmentFetcher().fetch(request, sandbox)
