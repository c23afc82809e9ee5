"""A session's device memory: its window, pages, physical frames, and where they lie."""
