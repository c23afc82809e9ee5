"""The subcommands of `farlane` that the fleet brings, and what each does."""

HELP = {
    "fleet": "run a fleet of hosts on a Ray cluster, or try its placement policies in simulated time",
}
