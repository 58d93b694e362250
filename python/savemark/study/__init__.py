"""From a study (YAML) to the trials of a run."""
