"""A small job for workers: in a module of its own, so that starting one costs nothing else."""


def halves(serve):
    """Serve: half of a number, but for one."""

    def halve(number):
        if number == 13:
            raise ValueError("an unlucky number")
        return number / 2

    serve(halve)
