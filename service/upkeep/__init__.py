"""What keeps a node well: cleaning, measures, the watch over its clock, and what it says of itself."""
