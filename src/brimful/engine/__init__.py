"""The three verbs, and what they share."""
