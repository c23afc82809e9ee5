"""The subcommands of `farlane` that the frontend brings, one in each module, and what each does."""

HELP = {
    "completion": "print the script that makes bash, zsh or fish complete commands and options",
    "doctor": "check the installation, a program or a host: what is wrong, and what to do",
    "env": 'print what makes a shell\'s programs guests of a host: eval "$(farlane env --host URL)"',
    "run": "run a CUDA program on a host, or on an embedded host with the simulated device",
    "setup": "show or change settings that last: whether NVIDIA's own runtime in stripped programs may run",
    "top": "show what runs on a host: its sessions, live in a terminal, as a table, or as JSON",
    "smi": "print what nvidia-smi does, for a host: memory, utilization, sessions",
}
