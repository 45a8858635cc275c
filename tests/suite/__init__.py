"""Tests of the tool that runs the tests."""
