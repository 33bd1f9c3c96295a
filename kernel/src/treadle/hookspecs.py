"""The hooks by which plugins say what they offer.

A plugin is a light module named by an entry point in the group ``treadle.plugins``. It implements any of
the hooks below, decorated with :data:`hookimpl`:

.. code-block:: python

    from treadle import Offer, hookimpl


    @hookimpl
    def treadle_step_types():
        return {"shout": Offer("acme_treadle.step:Shout", "Write a text in capitals")}

Every hook has the same manners:

* called once, with no arguments, when a session or a check begins; never while steps run;
* returns ``Mapping[str, Offer]``: the names that users type, each with where the thing lives;
* must not import what it offers, touch the network or read files: the offer says where it lives, and
  that is imported when it is first used;
* may raise anything: the plugin is then reported as broken, by name and cause, and the others go on;
* is a plain function without parameters; ``async def``, wrappers, unknown hooks and functions named like a hook
  that lack the decorator are refused when the plugin is registered.

Two plugins that offer one name for one role are both refused for that name until one is disabled.

The distribution says which kernels it is made for (``treadle-kernel>=0.1,<0.2`` among its dependencies); with another
one it is not imported. It may ship a contract suite for ``treadle plugins check``, as an entry point of the group
``treadle.checks``; see :mod:`treadle.testing`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    from treadle.contracts.offers import ConfigOffer, LayerOffer, Offer, ProviderOffer

__all__ = ["CONTRACT_VERSION", "PROJECT", "TreadleHooks", "hookimpl", "hookspec"]

PROJECT = "treadle"
CONTRACT_VERSION = "1.0"
"""Grows by a minor number when something is added, by a major number when something is taken away."""

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)
"""Decorates a plugin's implementation of a hook."""


class TreadleHooks:
    """Every hook there is."""

    @hookspec
    def treadle_step_types(self) -> Mapping[str, Offer]:
        """Step types, by the ``type:`` that documents write. Target: a subclass of ``Step``. Since 1.0."""
        raise AssertionError("a specification is never called")

    @hookspec
    def treadle_providers(self) -> Mapping[str, ProviderOffer]:
        """Model providers, by the name that ``config.provider`` takes. Target: a subclass of ``Provider``,
        called with its name and settings. Since 1.0."""
        raise AssertionError("a specification is never called")

    @hookspec
    def treadle_provider_layers(self) -> Mapping[str, LayerOffer]:
        """Layers around model calls. Target: called with no arguments once a session, gives a
        ``ProviderLayer``; see ``LayerOffer`` for those of one provider. Since 1.0."""
        raise AssertionError("a specification is never called")

    @hookspec
    def treadle_tools(self) -> Mapping[str, Offer]:
        """Tools, by the name that steps and models call. Target: a subclass of ``Tool``, called with no
        arguments once a session, or a tool itself, such as ``@treadle.tool`` makes. Since 1.0."""
        raise AssertionError("a specification is never called")

    @hookspec
    def treadle_trim_policies(self) -> Mapping[str, Offer]:
        """Trim policies, by the name that ``trim_policy`` takes. Target: called with no arguments, gives a
        ``TrimPolicy``. Since 1.0."""
        raise AssertionError("a specification is never called")

    @hookspec
    def treadle_memories(self) -> Mapping[str, Offer]:
        """Conversation memories. Target: called with no arguments once a session, gives a ``Memory``. Since 1.0."""
        raise AssertionError("a specification is never called")

    @hookspec
    def treadle_token_counters(self) -> Mapping[str, Offer]:
        """Token counters. Target: called with no arguments, gives a ``TokenCounter``. Since 1.0."""
        raise AssertionError("a specification is never called")

    @hookspec
    def treadle_attachment_fetchers(self) -> Mapping[str, Offer]:
        """Attachment fetchers, each under the name of a scheme that it reads. Target: called with no arguments once a
        session, gives an ``AttachmentFetcher``. Since 1.0."""
        raise AssertionError("a specification is never called")

    @hookspec
    def treadle_sandboxes(self) -> Mapping[str, Offer]:
        """Sandboxes. Target: a subclass of ``Sandbox``, called with the run's block and base directory. Since 1.0."""
        raise AssertionError("a specification is never called")

    @hookspec
    def treadle_journals(self) -> Mapping[str, Offer]:
        """Journals. Target: called once a session, gives a ``Journal``; with the ``journal:`` block as its
        ``settings_model`` where it has one, else with no arguments. Since 1.0."""
        raise AssertionError("a specification is never called")

    @hookspec
    def treadle_recorders(self) -> Mapping[str, Offer]:
        """Recorders, behind ``treadle run --record`` and ``treadle replay``. Target: a subclass of ``Recorder``, called
        with no arguments. Since 1.0."""
        raise AssertionError("a specification is never called")

    @hookspec
    def treadle_price_sources(self) -> Mapping[str, Offer]:
        """Price sources, asked in order of name until one knows. Target: called once a session, with the
        ``prices:`` block where it has a model for it, gives a ``PriceSource``. Since 1.0."""
        raise AssertionError("a specification is never called")

    @hookspec
    def treadle_budgets(self) -> Mapping[str, Offer]:
        """What keeps ``budget_usd``, of which a deployment has one. Target: called with ``BudgetTerms`` for each
        limit that is set, gives a ``Budget``. Since 1.0."""
        raise AssertionError("a specification is never called")

    @hookspec
    def treadle_observers(self) -> Mapping[str, Offer]:
        """Observers of every run. Target: called with no arguments once a run, gives an ``Observer``. Since 1.0."""
        raise AssertionError("a specification is never called")

    @hookspec
    def treadle_config_fields(self) -> Mapping[str, ConfigOffer]:
        """Keys of a workflow's ``config:`` block. Target: the type of the value, anything pydantic can
        validate. Since 1.0."""
        raise AssertionError("a specification is never called")
