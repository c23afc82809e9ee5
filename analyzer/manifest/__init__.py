"""The manifest: what the shim learns of a program (protos/manifest.md). Writing, reading, its code, its place in an
ELF file."""
