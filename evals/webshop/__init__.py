"""What only WebShop's pages allow to measure."""
