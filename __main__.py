"""``python -m stategate``: the ``stategate`` command."""

from stategate.ui.cli.main import main

if __name__ == "__main__":
    main()
