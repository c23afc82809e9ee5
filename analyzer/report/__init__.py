"""The report of a program: as a table, as JSON, as a graph."""
