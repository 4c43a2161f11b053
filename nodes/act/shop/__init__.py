"""Actors that play WebShop and no other world."""
