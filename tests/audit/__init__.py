"""What an engine's sources can print, held against what the parsers read of it."""
