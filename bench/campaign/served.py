"""Runs a `tarry serve` of the campaign in its own process.

    python -P -m tarry.bench.campaign.served PLANT POINT N serve --dsn ... --listen ...

PLANT is a bug for the checker to find, POINT a named point where the server kills itself (see `killing`); `none` leaves
either out.
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
