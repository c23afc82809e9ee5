"""The subcommands of `farlane` that the fleet brings, and what each does."""

HELP = {
    "fleet": "try placement policies of a fleet of hosts, in simulated time",
}
