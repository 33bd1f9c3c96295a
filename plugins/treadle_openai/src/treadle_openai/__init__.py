"""OpenAI's Chat Completions for Treadle: at OpenAI itself, and at any server that speaks the same protocol."""
