"""The subcommand `farlane analyze`."""
