"""ALFWorld's course: games to practise on, and a teacher."""
