"""Runs that are gone on with: what a journal has is not done again."""

from __future__ import annotations
