"""Step type ``llm_call``: ask a model."""
