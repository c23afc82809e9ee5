"""Sessions and what they share. Knows nothing of gRPC.

host.py       opens and closes sessions, deals out windows and quotas
session.py    one session: bounds on groups, their numbers, their order
manifests.py  what the analyzer found in guests' programs, kept on disk
"""
