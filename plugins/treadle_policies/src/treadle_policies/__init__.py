"""Layers around providers."""
