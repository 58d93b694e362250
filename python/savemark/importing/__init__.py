"""From the files of other programs and of published studies to what a run can hold."""
