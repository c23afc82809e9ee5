"""PTX text: its tokens, statements and modules, and what links modules."""
