"""What must hold when things break, and when input is hostile."""
