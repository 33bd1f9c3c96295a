"""Price source."""
