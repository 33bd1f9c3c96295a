"""Documents: YAML with positions, the envelope, steps checked by their own plugins, every problem at once."""

from treadle._document.envelope import open_sandbox, provider_overrides, sandbox_block
from treadle._document.linked import read_document
from treadle._document.loading import build_workflow, load_workflow, parse_workflow
from treadle._document.workflow import Workflow

__all__ = [
    "Workflow",
    "build_workflow",
    "load_workflow",
    "open_sandbox",
    "parse_workflow",
    "provider_overrides",
    "read_document",
    "sandbox_block",
]
