"""A process for each session (docs/explanation/systems.md, S1 point 1): what one session does to its process ends no other.

- control.py: what the host's process and a worker say to each other
- process.py: a worker: one device, one session, replayed there
- pool.py: starting workers ahead of need, placing sessions on GPUs, reaping
- session.py: a worker's session as the host sees it: admitted, attended, ended
- sharing.py: how processes share a GPU
"""
