"""The subcommands of `farlane` that the backend brings, one in each module, and what each does."""

HELP = {
    "devices": "list the devices of this machine, or of a host",
    "host": "set up a host that other machines can use: its certificates and first token",
    "plan": "plan the reuse of device memory for a trace of accesses, and draw the plan",
    "serve": "serve a device to guests",
    "session": "list, save, restore and move the sessions of a host",
    "sim": "run programs on the simulated device with the model of its memory system on",
    "token": "create, list and revoke the tokens of a host's guests",
}
