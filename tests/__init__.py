"""The tests of Barbicel."""
