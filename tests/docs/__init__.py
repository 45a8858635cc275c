"""The documents, held against the code and done as they say."""
