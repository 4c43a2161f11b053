"""Trainers of what knows WebShop: its expert's episodes, its practice goals, its policy actor."""
