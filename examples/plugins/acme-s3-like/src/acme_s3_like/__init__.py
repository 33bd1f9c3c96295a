"""Attachments from buckets for Treadle."""
