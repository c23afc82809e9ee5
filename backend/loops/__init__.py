"""Loops of the tape: templates, columns, and what an iteration's records are (protos/tape.md, "Loops").

    columns.py   a REPEAT's columns: checked, and evaluated one iteration or many at a time
    template.py  a TEMPLATE's content: checked, and filled for an iteration
    store.py     the templates of a session
    plan.py      a template as work that a device can repeat by itself
    operands.py  a record of a plan: constants, and the holes that are left

Nothing here replays anything: that is replay.py, which expands a loop record by record, and repeating.py, which hands it to a device.
"""
