"""Drawings as SVG, made from numbers (pure)."""
