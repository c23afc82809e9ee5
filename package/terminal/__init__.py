"""What all commands show at a terminal, in one place: examples in `--help`, exit statuses, progress, colours.

    examples.py   the examples of a parser: added to its help, read by the manual pages and the tests
    statuses.py   the table of exit statuses
    progress.py   bars on standard error, for work of more than two seconds
    console.py    rich's console as Farlane uses it

Frontend, backend, analyzer and fleet import this package; it imports none of them. What is slow to import is imported when
it is used.
"""
