"""Sessions and what they share. Knows nothing of gRPC.

host.py       opens and closes sessions, deals out windows and quotas
session.py    one session: bounds on groups, their numbers, their order
accounts.py   who has sessions, and the sums of what they count
metrics.py    the table of a host's metrics
manifests.py  what the analyzer found in guests' programs, kept on disk
"""
