"""What all evaluations share: tasks and their runner, run directories, statistics, reports."""
