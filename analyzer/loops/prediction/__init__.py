"""What is predicted of a loop: trip count, the exit tests behind each call, arguments of later launches; and their
texts."""
