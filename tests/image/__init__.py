"""What goes into the container image."""
