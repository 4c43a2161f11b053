"""The bank of experience that ships, a file a world: rule play of WebShop's sample tasks 100 to 109.

Made by ``stategate bank practice --goals 100-109`` and ``stategate bank build --include-incorrect``.
"""
