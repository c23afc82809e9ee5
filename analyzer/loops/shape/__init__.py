"""What runs when in a loop: its body, its paths, its variables, the ways out."""
