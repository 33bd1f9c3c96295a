"""Recorded or written replies in place of a model: the provider ``mock``."""
