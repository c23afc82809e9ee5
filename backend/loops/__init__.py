"""Loops of the tape: templates, columns, and what an iteration's records are (protos/tape.md, "Loops").

- columns.py: a REPEAT's columns: checked, and evaluated one iteration or many at a time
- template.py: a TEMPLATE's content: checked, and filled for an iteration
- store.py: the templates of a session
- plan.py: a template as work that a device can repeat by itself
- plans.py: the plans of a template, and when one is worth it
- operands.py: a record of a plan: constants, and the holes that are left
- steps.py: what a REPEAT or CONDITIONAL stands for, for the plane to replay
- pace.py: how many iterations a device is handed at once
- upcoming.py: the launches that come next, as far as the tape says them
"""
