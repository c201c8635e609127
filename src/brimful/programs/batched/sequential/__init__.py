"""Rows that Python runs one by one."""
