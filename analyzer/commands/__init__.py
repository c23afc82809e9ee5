"""The subcommands of `farlane` that the analyzer brings, one in each module, and what each does."""

HELP = {
    "analyze": "find the loops with CUDA calls in an executable, and write the manifest that the shim reads",
}
