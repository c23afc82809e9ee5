"""On what a value in a loop depends, and from which stores memory that the loop reads may come."""
