"""Settings: where a provider's values come from, and in which order they win."""

from treadle._settings.providers import build_settings

__all__ = ["build_settings"]
