"""Benchmarks: suites of ordinary runs, their table, and its verification."""
