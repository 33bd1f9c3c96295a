"""Treadle: a micro-kernel that runs LLM workflows and agents.

Every public name can be imported from here. Each is loaded when it is first touched, so that importing
``treadle`` costs next to nothing; ``import treadle; treadle.run_sync("flow.yaml")`` is a whole program.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treadle._document import Workflow as Workflow
    from treadle._engine import Session as Session
    from treadle._plugins import Host as Host
    from treadle.api import (
        build_workflow as build_workflow,
        default_host as default_host,
        load_workflow as load_workflow,
        open as open,
        parse_workflow as parse_workflow,
        run as run,
        run_sync as run_sync,
    )
    from treadle.contracts.config import RetrySettings as RetrySettings, RunConfig as RunConfig
    from treadle.contracts.events import Observer as Observer, RunEvent as RunEvent
    from treadle.contracts.journal import Journal as Journal, JournalEntry as JournalEntry
    from treadle.contracts.memory import (
        Conversation as Conversation,
        Memory as Memory,
        TokenCounter as TokenCounter,
        TrimPolicy as TrimPolicy,
        Trimmed as Trimmed,
    )
    from treadle.contracts.offers import (
        ConfigOffer as ConfigOffer,
        LayerOffer as LayerOffer,
        Offer as Offer,
        ProviderOffer as ProviderOffer,
    )
    from treadle.contracts.provider import (
        Exchange as Exchange,
        Features as Features,
        FromEnv as FromEnv,
        Provider as Provider,
        ProviderLayer as ProviderLayer,
        ProviderSettings as ProviderSettings,
    )
    from treadle.contracts.results import (
        RunResult as RunResult,
        RunStatus as RunStatus,
        StepResult as StepResult,
        StepStatus as StepStatus,
    )
    from treadle.contracts.sandbox import (
        CommandResult as CommandResult,
        HttpClient as HttpClient,
        HttpReply as HttpReply,
        HttpRequest as HttpRequest,
        Sandbox as Sandbox,
    )
    from treadle.contracts.secrets import SecretRef as SecretRef
    from treadle.contracts.sources import (
        AttachmentFetcher as AttachmentFetcher,
        AttachmentRequest as AttachmentRequest,
        PriceSource as PriceSource,
    )
    from treadle.contracts.step import (
        Reference as Reference,
        Step as Step,
        StepContext as StepContext,
        StepDetails as StepDetails,
        StepOutcome as StepOutcome,
    )
    from treadle.contracts.tool import Tool as Tool, ToolContext as ToolContext
    from treadle.errors import (
        AuthenticationError as AuthenticationError,
        BadRequestError as BadRequestError,
        ConfigurationError as ConfigurationError,
        ContextLengthError as ContextLengthError,
        CredentialError as CredentialError,
        DocumentError as DocumentError,
        ExpressionError as ExpressionError,
        InsufficientCreditsError as InsufficientCreditsError,
        ModelNotFoundError as ModelNotFoundError,
        NotInstalledError as NotInstalledError,
        OutputError as OutputError,
        Phase as Phase,
        PluginError as PluginError,
        Problem as Problem,
        ProviderError as ProviderError,
        ProviderTimeoutError as ProviderTimeoutError,
        RateLimitError as RateLimitError,
        RedirectError as RedirectError,
        ResponseError as ResponseError,
        SandboxError as SandboxError,
        Severity as Severity,
        StateError as StateError,
        StepError as StepError,
        TemplateError as TemplateError,
        ToolError as ToolError,
        TreadleError as TreadleError,
        UnavailableError as UnavailableError,
        UnreachableError as UnreachableError,
        UnsupportedError as UnsupportedError,
    )
    from treadle.fields import (
        ArgumentTree as ArgumentTree,
        Expression as Expression,
        StatePath as StatePath,
        Template as Template,
    )
    from treadle.hookspecs import CONTRACT_VERSION as CONTRACT_VERSION, hookimpl as hookimpl
    from treadle.messages import (
        AssistantMessage as AssistantMessage,
        AssistantPart as AssistantPart,
        Citation as Citation,
        Completed as Completed,
        EmbedRequest as EmbedRequest,
        EmbedResponse as EmbedResponse,
        HostedTool as HostedTool,
        HostedToolPart as HostedToolPart,
        MediaPart as MediaPart,
        Message as Message,
        ModelRequest as ModelRequest,
        ModelResponse as ModelResponse,
        NamedTool as NamedTool,
        OutputSchema as OutputSchema,
        Part as Part,
        Reasoning as Reasoning,
        ReasoningDelta as ReasoningDelta,
        ReasoningPart as ReasoningPart,
        Source as Source,
        StopReason as StopReason,
        StreamEvent as StreamEvent,
        SystemMessage as SystemMessage,
        TextDelta as TextDelta,
        TextPart as TextPart,
        ToolCallDelta as ToolCallDelta,
        ToolCallPart as ToolCallPart,
        ToolChoice as ToolChoice,
        ToolMessage as ToolMessage,
        ToolResultPart as ToolResultPart,
        ToolSpec as ToolSpec,
        Usage as Usage,
        UserMessage as UserMessage,
        UserPart as UserPart,
    )

_HOMES = {
    "treadle._document": ("Workflow",),
    "treadle._engine": ("Session",),
    "treadle._plugins": ("Host",),
    "treadle.api": ("build_workflow", "default_host", "load_workflow", "open", "parse_workflow", "run", "run_sync"),
    "treadle.contracts.config": ("RetrySettings", "RunConfig"),
    "treadle.contracts.events": ("Observer", "RunEvent"),
    "treadle.contracts.journal": ("Journal", "JournalEntry"),
    "treadle.contracts.memory": ("Conversation", "Memory", "TokenCounter", "TrimPolicy", "Trimmed"),
    "treadle.contracts.offers": ("ConfigOffer", "LayerOffer", "Offer", "ProviderOffer"),
    "treadle.contracts.provider": ("Exchange", "Features", "FromEnv", "Provider", "ProviderLayer", "ProviderSettings"),
    "treadle.contracts.results": ("RunResult", "RunStatus", "StepResult", "StepStatus"),
    "treadle.contracts.sandbox": ("CommandResult", "HttpClient", "HttpReply", "HttpRequest", "Sandbox"),
    "treadle.contracts.secrets": ("SecretRef",),
    "treadle.contracts.sources": ("AttachmentFetcher", "AttachmentRequest", "PriceSource"),
    "treadle.contracts.step": ("Reference", "Step", "StepContext", "StepDetails", "StepOutcome"),
    "treadle.contracts.tool": ("Tool", "ToolContext"),
    "treadle.errors": (
        "AuthenticationError",
        "BadRequestError",
        "ConfigurationError",
        "ContextLengthError",
        "CredentialError",
        "DocumentError",
        "ExpressionError",
        "InsufficientCreditsError",
        "ModelNotFoundError",
        "NotInstalledError",
        "OutputError",
        "Phase",
        "PluginError",
        "Problem",
        "ProviderError",
        "ProviderTimeoutError",
        "RateLimitError",
        "RedirectError",
        "ResponseError",
        "SandboxError",
        "Severity",
        "StateError",
        "StepError",
        "TemplateError",
        "ToolError",
        "TreadleError",
        "UnavailableError",
        "UnreachableError",
        "UnsupportedError",
    ),
    "treadle.fields": ("ArgumentTree", "Expression", "StatePath", "Template"),
    "treadle.hookspecs": ("CONTRACT_VERSION", "hookimpl"),
    "treadle.messages": (
        "AssistantMessage",
        "AssistantPart",
        "Citation",
        "Completed",
        "EmbedRequest",
        "EmbedResponse",
        "HostedTool",
        "HostedToolPart",
        "MediaPart",
        "Message",
        "ModelRequest",
        "ModelResponse",
        "NamedTool",
        "OutputSchema",
        "Part",
        "Reasoning",
        "ReasoningDelta",
        "ReasoningPart",
        "Source",
        "StopReason",
        "StreamEvent",
        "SystemMessage",
        "TextDelta",
        "TextPart",
        "ToolCallDelta",
        "ToolCallPart",
        "ToolChoice",
        "ToolMessage",
        "ToolResultPart",
        "ToolSpec",
        "Usage",
        "UserMessage",
        "UserPart",
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
# Not in it is `open`, which `from treadle import *` must not put over the built-in one.
__all__ = sorted(_HOME_OF.keys() - {"open"})  # noqa: PLE0605 - one list of names, above


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'treadle' has no attribute '{name}'")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF})
