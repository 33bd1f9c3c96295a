"""The step ``tool``, and the tools for HTTP, commands and files."""
