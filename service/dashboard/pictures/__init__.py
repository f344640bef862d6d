"""Drawings as SVG: numbers in, text out (pure)."""
