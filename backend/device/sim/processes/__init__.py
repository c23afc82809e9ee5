"""Sessions that give way to each other, each in a process of its own: the books are the listening process's."""
