"""Proofs about copies: is the site reached again before anything touches the destination?"""
