"""Loops that a device repeats by itself (protos/tape.md, "Loops").

The plane checks templates and walks iterations; this is what it asks for.

- template.py: a template, as the plane has checked it
- plan.py: a template as work that a device can repeat by itself
- operands.py: a record of a plan: constants, and the holes that are left
- plans.py: when a plan is worth it, and iterations by one
- pace.py: how many iterations a device is handed at once
"""
