"""What keeps a node well: cleaning, measures, alarms, and what it says of itself."""
