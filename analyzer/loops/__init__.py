"""The loops that contain CUDA calls: what is known of their arguments, their class, their trip count."""
