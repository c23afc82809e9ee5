"""The generator behind `protos/codegen/generate.py`: reads the contract's tables, writes code for both sides.

One module per table (reading and validating it) and one per output (a pure function from tables to text). Nothing here is
installed with the package: generated files are committed.
"""
