"""Files that start a study on many nodes: one template per launcher."""
