"""What model calls share: reading replies, checking their shape."""
