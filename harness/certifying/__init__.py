"""Certifying a query: what is planned, what was tried, and what the certificate says of it."""
