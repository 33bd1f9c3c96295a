"""Provider ``local``: a small model in this process, through llama.cpp, with no key and no network."""
