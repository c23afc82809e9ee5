"""The manifest: what the shim is told of a program (protos/manifest.md). Writing, reading, its code, its place in an
ELF file."""
