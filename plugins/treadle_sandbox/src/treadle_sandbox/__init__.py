"""The sandbox ``policy``: the way of tools to files, commands and the network."""
