"""Provider ``ollama``."""
