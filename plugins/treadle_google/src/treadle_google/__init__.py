"""Provider ``google``."""
