"""The fleet's book against a synthetic day: arrivals, sizes, failures, in simulated time.

The book and the policies are the fleet's own (`placement/`); hosts, sessions and the clock are simulated.
"""
