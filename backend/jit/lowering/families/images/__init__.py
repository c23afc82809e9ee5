"""Instructions of textures and surfaces."""
