"""Stores outside, as their messages show them: requests and answers pass through the harness's relay, cut at their
boundaries."""
