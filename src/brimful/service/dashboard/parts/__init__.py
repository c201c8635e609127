"""What pages are made of: tables, curves, forms."""
