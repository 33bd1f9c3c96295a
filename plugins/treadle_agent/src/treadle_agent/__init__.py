"""Agents: step ``agent``, agents as tools, and ``Agent`` for programs."""
