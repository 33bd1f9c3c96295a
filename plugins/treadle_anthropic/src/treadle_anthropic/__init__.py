"""Provider ``anthropic``."""
