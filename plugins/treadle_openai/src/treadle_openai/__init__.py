"""OpenAI's APIs for Treadle: Chat Completions and Responses at OpenAI, Chat Completions at any compatible server."""
