"""Where sessions go: the hosts' free room, policies that choose one, and the order of those that wait.

A policy is a pure function, one in each file; the book (`book.py`) asks it and keeps the account.
"""
