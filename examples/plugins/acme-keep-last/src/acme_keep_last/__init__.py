"""The trim policy ``acme_keep_last`` for Treadle."""
