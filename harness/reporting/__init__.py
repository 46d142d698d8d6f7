"""What is shown of verdicts and findings: one view, made of a record, and the screen that is made of it."""
