"""The mechanisms that the schemes are made of: one algorithm, one file."""
