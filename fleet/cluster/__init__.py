"""A fleet on Ray: its hosts and its roster are actors, which Ray places, restarts and watches.

The only room that knows Ray. What admits sessions is gateway/.
"""
