"""Bridges from trio to what is not: an asyncio loop, a thread, a process. They know nothing of workflows."""
