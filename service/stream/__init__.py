"""What comes into queues, written together, and who hears that they have grown."""
