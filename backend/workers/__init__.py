"""A process for each session (mission.md S1 point 1): what one session does to its process ends no other.

- wire.py: frames between the host's process and a worker
- process.py: a worker: one device, one session, replayed there
- pool.py: starting workers ahead of need, placing sessions on GPUs, reaping
- session.py: a worker's session as the host sees it
- sharing.py: how processes share a GPU
"""
