"""What ``treadle plugins check`` and the tests hold this plugin to. Nothing else imports it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from acme_provider.provider import AcmeProvider, AcmeProviderSettings
from treadle import ModelRequest, UserMessage
from treadle.testing import check_provider

__all__ = ["contract_checks"]


def contract_checks() -> Mapping[str, Callable[[], Awaitable[None]]]:
    """Each check with what it is about."""
    request = ModelRequest(model="parrot-1", messages=(UserMessage.of("Good morning"),))
    return {
        "provider my_provider": lambda: check_provider(make, request, expect="You said: Good morning"),
    }


def make() -> AcmeProvider:
    """A provider as a deployment without settings has it."""
    return AcmeProvider("my_provider", AcmeProviderSettings())
