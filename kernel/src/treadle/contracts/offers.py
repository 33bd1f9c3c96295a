"""What a plugin's hooks return: offers, which say what there is without importing it."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from typing import Any, Literal

from treadle._dataclasses import dataclass

__all__ = ["ConfigOffer", "LayerOffer", "LayerScope", "Offer", "ProviderOffer", "Role"]

Role = Literal[
    "step_type",
    "provider",
    "provider_layer",
    "tool",
    "trim_policy",
    "memory",
    "token_counter",
    "attachment_fetcher",
    "sandbox",
    "journal",
    "recorder",
    "price_source",
    "budget",
    "observer",
    "config_field",
]
"""What an offer can serve as. One hook each: role ``tool`` is collected by ``treadle_tools``."""

LayerScope = Literal["call", "candidate"]


@dataclass(frozen=True, slots=True)
class Offer:
    """One thing a plugin provides.

    :param target: where it lives, as ``"package.module:attribute"``, so that listing what is installed
        imports nothing; or the object itself, which is handy in tests.
    :param summary: one line for listings, without a full stop.
    """

    target: str | Callable[..., Any]
    summary: str

    def __post_init__(self) -> None:
        if isinstance(self.target, str) and not re.fullmatch(r"[\w.]+:[\w.]+", self.target):
            raise ValueError(f"the target {self.target!r} is not of the form package.module:attribute")

    def load(self) -> Any:
        """The object offered, imported if need be.

        :raises ImportError, AttributeError: whatever importing it raises; the host adds whose it is.
        """
        if not isinstance(self.target, str):
            return self.target
        module, _, attribute = self.target.partition(":")
        found: Any = import_module(module)
        for name in attribute.split("."):
            found = getattr(found, name)
        return found


@dataclass(frozen=True, slots=True)
class ProviderOffer(Offer):
    """A model provider.

    :param default_model: the model used where a document names none.
    :param is_default: whether it is the provider of documents and deployments that name none.
    """

    default_model: str | None = None
    is_default: bool = False


@dataclass(frozen=True, slots=True)
class LayerOffer(Offer):
    """A provider layer.

    :param scope: ``call`` wraps a whole model call, fallback included (journal, recorder); ``candidate``
        wraps each attempt at one provider, inside fallback (breaker, limiter). A provider that is passed
        over or cannot be opened has no attempt.
    :param order: within a scope, lower is further out.
    :param limits: whether it holds a provider to the ``limits:`` of its entry in ``treadle.yaml``. Then it stands
        around the providers that have some and around nobody else. Its target is a class with a ``settings_model``,
        called once a session and provider with the provider's name and an instance of that. Of scope ``candidate``.
    """

    scope: LayerScope = "candidate"
    order: int = 0
    limits: bool = False

    def __post_init__(self) -> None:
        Offer.__post_init__(self)
        if self.limits and self.scope != "candidate":
            raise ValueError("only a layer of scope 'candidate' knows the provider whose limits it holds")


@dataclass(frozen=True, slots=True)
class ConfigOffer(Offer):
    """A key of a workflow's ``config:`` block; the target is the type that its value must have.

    :param provider: the provider whose setting of the same name the key overrides for this workflow.
    """

    provider: str | None = None
