"""Treadle: a micro-kernel that runs LLM workflows and agents.

Every public name can be imported from here. Each is loaded when it is first touched, so that importing
``treadle`` costs next to nothing; ``import treadle; treadle.run_sync("flow.yaml")`` is a whole program.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "treadle._document": "Workflow read_document",
    "treadle._document.schema": "settings_schema workflow_schema",
    "treadle._engine": "RunStream Session",
    "treadle._engine.journal": "MemoryJournal",
    "treadle._logging": "LogObserver",
    "treadle._engine.resuming": "Record",
    "treadle._plugins": "Host",
    "treadle._settings.finding": "find_settings",
    "treadle._settings.providers": "SettingValue provider_values",
    "treadle._suggest": "close_match",
    "treadle.api": """
        build_workflow default_host deployed_host installed_journal load_settings load_workflow open parse_workflow run
        run_sync
    """,
    "treadle.builder": "WorkflowBuilder workflow",
    "treadle.contracts.budget": "Budget BudgetTerms PlannedCall",
    "treadle.contracts.config": "RetrySettings RunConfig",
    "treadle.contracts.documents": "CheckedChild DocumentCheck LoadedDocument",
    "treadle.contracts.events": "Observer RunEvent",
    "treadle.contracts.journal": "Journal JournalEntry",
    "treadle.contracts.memory": "Conversation Memory TokenCounter TrimPolicy Trimmed",
    "treadle.contracts.offers": "ConfigOffer LayerOffer Offer ProviderOffer",
    "treadle.contracts.provider": "Exchange Features FromEnv Provider ProviderLayer ProviderSettings",
    "treadle.contracts.recording": "Playback Recorder",
    "treadle.contracts.results": "Pending RunResult RunStatus StepResult StepStatus",
    "treadle.contracts.sandbox": "CommandResult HttpClient HttpReply HttpRequest Sandbox",
    "treadle.contracts.secrets": "SecretRef",
    "treadle.contracts.settings": "Settings",
    "treadle.contracts.sources": "AttachmentFetcher AttachmentRequest PriceSource",
    "treadle.contracts.step": "DoneCall Reference Step StepContext StepDetails StepOutcome",
    "treadle.contracts.tool": "Right Tool ToolContext",
    "treadle.errors": """
        AuthenticationError BadRequestError BudgetExceededError ConfigurationError ContextLengthError CredentialError
        DocumentError ExpressionError InsufficientCreditsError ModelNotFoundError NotInstalledError
        OutputError Phase PluginError Problem ProviderError ProviderTimeoutError RateLimitError
        RedirectError ResponseError SandboxError Severity StateError StepError TemplateError ToolError
        TreadleError UnavailableError UnreachableError UnsupportedError
    """,
    "treadle.fields": "ArgumentTree Expression StatePath Template",
    "treadle.hookspecs": "CONTRACT_VERSION hookimpl",
    "treadle.messages": """
        AssistantMessage AssistantPart Citation Completed EmbedRequest EmbedResponse HostedTool
        HostedToolPart MediaPart Message ModelRequest ModelResponse NamedTool OutputSchema Part Reasoning
        ReasoningDelta ReasoningPart Source StopReason StreamEvent SystemMessage TextDelta TextPart
        ToolCallDelta ToolCallPart ToolChoice ToolMessage ToolResultPart ToolSpec Usage UserMessage UserPart
    """,
    "treadle.printing": "prints_on_stderr results_stream",
    "treadle.redaction": "Redactor hide_secrets",
    "treadle.tools": "BaseTool FunctionTool ToolRegistry tool",
}
"""Where each public name lives; the same names stand in `__init__.pyi`, for type checkers."""

_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}
# Not in it is `open`, which `from treadle import *` must not put over the built-in one.
__all__ = sorted(_HOME_OF.keys() - {"open"})


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'treadle' has no attribute '{name}'")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF})
