"""What a run may not tell, as its deployment and its workflow say."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from treadle.redaction import Redactor

if TYPE_CHECKING:
    from treadle._document import Workflow
    from treadle.contracts.settings import Settings

__all__ = ["redacted_keys", "redacted_workflow", "redactor_of"]

_VARIABLES = ("TREADLE_REDACT_STATE_KEYS", "AGENTLOOM_REDACT_STATE_KEYS")


def redactor_of(settings: Settings) -> Redactor:
    """The redactor of a run, with what holds for every workflow of the deployment.

    :raises CredentialError: the salt that the settings name cannot be read.
    """
    own = settings.redaction
    listed = (key.strip() for variable in _VARIABLES for key in os.environ.get(variable, "").split(","))
    return Redactor((*own.keys, *listed), own.salt.reveal() if own.salt else None)


def redacted_keys(state_schema: Mapping[str, Any]) -> Iterator[str]:
    """The keys and patterns that a workflow's ``state_schema`` marks with ``redact: true``."""
    return (key for key, about in state_schema.items() if isinstance(about, Mapping) and about.get("redact") is True)


def redacted_workflow(workflow: Workflow, redactor: Redactor) -> Workflow:
    """The workflow as it may be recorded."""
    state, data = redactor.state(workflow.state), redactor.hide(workflow.data)
    # Steps hold what the document says: they are looked through only where there is something to hide in that.
    steps = workflow.steps if data is workflow.data else redactor.hide(workflow.steps)
    files = redactor.hide(workflow.files)
    data = {**data, "state": state} if state else data
    digest = workflow.file_digest if data == workflow.data else None  # what the file holds is not what is recorded
    return replace(workflow, state=state, steps=steps, data=data, files=files, file_digest=digest)
