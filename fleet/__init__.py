"""A fleet: many hosts behind one address.

Owns which host a session goes to, and which session goes next when all are full. Knows nothing of the wire.
"""
