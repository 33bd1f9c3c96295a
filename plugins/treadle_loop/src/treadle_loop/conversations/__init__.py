"""Conversations with a model, as agentloop's users write them: over the loop, the messages and the providers here."""
