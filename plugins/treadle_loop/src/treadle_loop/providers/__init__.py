"""Clients that come with the package."""
