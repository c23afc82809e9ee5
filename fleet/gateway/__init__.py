"""What admits sessions to a fleet: the roster of its hosts, and gateways that lead guests to them.

Nothing here knows Ray (`cluster/`): a fleet may as well be hosts of this process.
"""
