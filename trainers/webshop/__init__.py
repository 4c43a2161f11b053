"""WebShop's course: goals to practise on, and a teacher."""
