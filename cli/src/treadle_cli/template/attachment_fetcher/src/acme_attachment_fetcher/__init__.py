"""The attachment fetcher ``my_attachment_fetcher`` for Treadle."""
