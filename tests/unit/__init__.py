"""What one module does, without servers, clocks or files."""
