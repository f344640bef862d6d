"""A `tarry serve` of the campaign, in a process of its own.

    python -P -m tarry.bench.campaign.served PLANT POINT N serve --dsn ... --listen ...

With a bug planted, so that the checker has one to find, and ending itself at a named point (see `killing`); `none` for
either is a plain server.
"""

import sys

from ...service.cli.app import main
from .. import killing
from .plants import PLANTS, Plant

if __name__ == "__main__":
    name, point, times = sys.argv[1:4]
    sys.argv[1:4] = []
    plant = PLANTS.get(name, Plant(()))
    plant.patch()
    killing.install(point, int(times), plant.watched)
    main()
