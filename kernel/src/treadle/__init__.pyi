"""What type checkers see of the package; `__init__.py` loads each name when it is touched."""

from treadle._document import Workflow as Workflow
from treadle._document import (
    read_document as read_document,
)
from treadle._document.schema import settings_schema as settings_schema
from treadle._document.schema import workflow_schema as workflow_schema
from treadle._engine import RunStream as RunStream
from treadle._engine import Session as Session
from treadle._engine.journal import MemoryJournal as MemoryJournal
from treadle._engine.resuming import Record as Record
from treadle._logging import LogObserver as LogObserver
from treadle._plugins import Host as Host
from treadle._settings.finding import find_settings as find_settings
from treadle._settings.providers import SettingValue as SettingValue
from treadle._settings.providers import provider_values as provider_values
from treadle._suggest import close_match as close_match
from treadle.api import (
    build_workflow as build_workflow,
)
from treadle.api import (
    default_host as default_host,
)
from treadle.api import (
    deployed_host as deployed_host,
)
from treadle.api import (
    installed_journal as installed_journal,
)
from treadle.api import (
    load_settings as load_settings,
)
from treadle.api import (
    load_workflow as load_workflow,
)
from treadle.api import (
    open as open,
)
from treadle.api import (
    parse_workflow as parse_workflow,
)
from treadle.api import (
    run as run,
)
from treadle.api import (
    run_sync as run_sync,
)
from treadle.builder import WorkflowBuilder as WorkflowBuilder
from treadle.builder import workflow as workflow
from treadle.contracts.budget import Budget as Budget
from treadle.contracts.budget import BudgetTerms as BudgetTerms
from treadle.contracts.budget import PlannedCall as PlannedCall
from treadle.contracts.config import RetrySettings as RetrySettings
from treadle.contracts.config import RunConfig as RunConfig
from treadle.contracts.documents import (
    CheckedChild as CheckedChild,
)
from treadle.contracts.documents import (
    DocumentCheck as DocumentCheck,
)
from treadle.contracts.documents import (
    LoadedDocument as LoadedDocument,
)
from treadle.contracts.events import Observer as Observer
from treadle.contracts.events import RunEvent as RunEvent
from treadle.contracts.journal import Journal as Journal
from treadle.contracts.journal import JournalEntry as JournalEntry
from treadle.contracts.memory import (
    Conversation as Conversation,
)
from treadle.contracts.memory import (
    Memory as Memory,
)
from treadle.contracts.memory import (
    TokenCounter as TokenCounter,
)
from treadle.contracts.memory import (
    Trimmed as Trimmed,
)
from treadle.contracts.memory import (
    TrimPolicy as TrimPolicy,
)
from treadle.contracts.offers import (
    ConfigOffer as ConfigOffer,
)
from treadle.contracts.offers import (
    LayerOffer as LayerOffer,
)
from treadle.contracts.offers import (
    Offer as Offer,
)
from treadle.contracts.offers import (
    ProviderOffer as ProviderOffer,
)
from treadle.contracts.provider import (
    Exchange as Exchange,
)
from treadle.contracts.provider import (
    Features as Features,
)
from treadle.contracts.provider import (
    FromEnv as FromEnv,
)
from treadle.contracts.provider import (
    Provider as Provider,
)
from treadle.contracts.provider import (
    ProviderLayer as ProviderLayer,
)
from treadle.contracts.provider import (
    ProviderSettings as ProviderSettings,
)
from treadle.contracts.recording import Playback as Playback
from treadle.contracts.recording import Recorder as Recorder
from treadle.contracts.results import (
    Pending as Pending,
)
from treadle.contracts.results import (
    RunResult as RunResult,
)
from treadle.contracts.results import (
    RunStatus as RunStatus,
)
from treadle.contracts.results import (
    StepResult as StepResult,
)
from treadle.contracts.results import (
    StepStatus as StepStatus,
)
from treadle.contracts.sandbox import (
    CommandResult as CommandResult,
)
from treadle.contracts.sandbox import (
    HttpClient as HttpClient,
)
from treadle.contracts.sandbox import (
    HttpReply as HttpReply,
)
from treadle.contracts.sandbox import (
    HttpRequest as HttpRequest,
)
from treadle.contracts.sandbox import (
    Sandbox as Sandbox,
)
from treadle.contracts.secrets import SecretRef as SecretRef
from treadle.contracts.settings import Settings as Settings
from treadle.contracts.sources import (
    AttachmentFetcher as AttachmentFetcher,
)
from treadle.contracts.sources import (
    AttachmentRequest as AttachmentRequest,
)
from treadle.contracts.sources import (
    PriceSource as PriceSource,
)
from treadle.contracts.step import (
    DoneCall as DoneCall,
)
from treadle.contracts.step import (
    Reference as Reference,
)
from treadle.contracts.step import (
    Step as Step,
)
from treadle.contracts.step import (
    StepContext as StepContext,
)
from treadle.contracts.step import (
    StepDetails as StepDetails,
)
from treadle.contracts.step import (
    StepOutcome as StepOutcome,
)
from treadle.contracts.tool import Right as Right
from treadle.contracts.tool import Tool as Tool
from treadle.contracts.tool import ToolContext as ToolContext
from treadle.errors import (
    AuthenticationError as AuthenticationError,
)
from treadle.errors import (
    BadRequestError as BadRequestError,
)
from treadle.errors import (
    BudgetExceededError as BudgetExceededError,
)
from treadle.errors import (
    ConfigurationError as ConfigurationError,
)
from treadle.errors import (
    ContextLengthError as ContextLengthError,
)
from treadle.errors import (
    CredentialError as CredentialError,
)
from treadle.errors import (
    DocumentError as DocumentError,
)
from treadle.errors import (
    ExpressionError as ExpressionError,
)
from treadle.errors import (
    InsufficientCreditsError as InsufficientCreditsError,
)
from treadle.errors import (
    ModelNotFoundError as ModelNotFoundError,
)
from treadle.errors import (
    NotInstalledError as NotInstalledError,
)
from treadle.errors import (
    OutputError as OutputError,
)
from treadle.errors import (
    Phase as Phase,
)
from treadle.errors import (
    PluginError as PluginError,
)
from treadle.errors import (
    Problem as Problem,
)
from treadle.errors import (
    ProviderError as ProviderError,
)
from treadle.errors import (
    ProviderTimeoutError as ProviderTimeoutError,
)
from treadle.errors import (
    RateLimitError as RateLimitError,
)
from treadle.errors import (
    RedirectError as RedirectError,
)
from treadle.errors import (
    ResponseError as ResponseError,
)
from treadle.errors import (
    SandboxError as SandboxError,
)
from treadle.errors import (
    Severity as Severity,
)
from treadle.errors import (
    StateError as StateError,
)
from treadle.errors import (
    StepError as StepError,
)
from treadle.errors import (
    TemplateError as TemplateError,
)
from treadle.errors import (
    ToolError as ToolError,
)
from treadle.errors import (
    TreadleError as TreadleError,
)
from treadle.errors import (
    UnavailableError as UnavailableError,
)
from treadle.errors import (
    UnreachableError as UnreachableError,
)
from treadle.errors import (
    UnsupportedError as UnsupportedError,
)
from treadle.fields import (
    ArgumentTree as ArgumentTree,
)
from treadle.fields import (
    Expression as Expression,
)
from treadle.fields import (
    StatePath as StatePath,
)
from treadle.fields import (
    Template as Template,
)
from treadle.hookspecs import CONTRACT_VERSION as CONTRACT_VERSION
from treadle.hookspecs import hookimpl as hookimpl
from treadle.messages import (
    AssistantMessage as AssistantMessage,
)
from treadle.messages import (
    AssistantPart as AssistantPart,
)
from treadle.messages import (
    Citation as Citation,
)
from treadle.messages import (
    Completed as Completed,
)
from treadle.messages import (
    EmbedRequest as EmbedRequest,
)
from treadle.messages import (
    EmbedResponse as EmbedResponse,
)
from treadle.messages import (
    HostedTool as HostedTool,
)
from treadle.messages import (
    HostedToolPart as HostedToolPart,
)
from treadle.messages import (
    MediaPart as MediaPart,
)
from treadle.messages import (
    Message as Message,
)
from treadle.messages import (
    ModelRequest as ModelRequest,
)
from treadle.messages import (
    ModelResponse as ModelResponse,
)
from treadle.messages import (
    NamedTool as NamedTool,
)
from treadle.messages import (
    OutputSchema as OutputSchema,
)
from treadle.messages import (
    Part as Part,
)
from treadle.messages import (
    Reasoning as Reasoning,
)
from treadle.messages import (
    ReasoningDelta as ReasoningDelta,
)
from treadle.messages import (
    ReasoningPart as ReasoningPart,
)
from treadle.messages import (
    Source as Source,
)
from treadle.messages import (
    StopReason as StopReason,
)
from treadle.messages import (
    StreamEvent as StreamEvent,
)
from treadle.messages import (
    SystemMessage as SystemMessage,
)
from treadle.messages import (
    TextDelta as TextDelta,
)
from treadle.messages import (
    TextPart as TextPart,
)
from treadle.messages import (
    ToolCallDelta as ToolCallDelta,
)
from treadle.messages import (
    ToolCallPart as ToolCallPart,
)
from treadle.messages import (
    ToolChoice as ToolChoice,
)
from treadle.messages import (
    ToolMessage as ToolMessage,
)
from treadle.messages import (
    ToolResultPart as ToolResultPart,
)
from treadle.messages import (
    ToolSpec as ToolSpec,
)
from treadle.messages import (
    Usage as Usage,
)
from treadle.messages import (
    UserMessage as UserMessage,
)
from treadle.messages import (
    UserPart as UserPart,
)
from treadle.printing import prints_on_stderr as prints_on_stderr
from treadle.printing import results_stream as results_stream
from treadle.redaction import Redactor as Redactor
from treadle.redaction import hide_secrets as hide_secrets
from treadle.tools import BaseTool as BaseTool
from treadle.tools import FunctionTool as FunctionTool
from treadle.tools import ToolRegistry as ToolRegistry
from treadle.tools import tool as tool
