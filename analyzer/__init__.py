"""The analyzer of guest executables: finds the loops that contain CUDA calls and says what is known of the calls' arguments.

Layers, each importing only those before it: `loader` (ELF files), `machine` (decoded instructions), `graph` (control
flow, loops), `flow` (values), `loops` (classes), `report`, `commands`. An executable is untrusted input: every failure
is an `AnalysisError`, every stage is bounded, and what was skipped is listed.
"""
