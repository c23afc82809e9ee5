"""Reading ELF executables: sections, functions, imports, exception tables, source lines. Knows nothing of
instructions."""
