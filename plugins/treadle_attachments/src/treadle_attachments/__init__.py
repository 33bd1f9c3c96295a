"""Attachments from the web, from files and from the text itself, and what they are.

:func:`treadle_attachments.parts.media_part` and :func:`treadle_attachments.parts.shown` are for fetchers of others.
"""
