"""Tarry: delayed messages with a stream queue behind them, on the MySQL you already run.

The floors, lower never imports higher:

- `wheel`     pure. The timing wheel, the retry ladder, the horizon. Integers in, integers out.
- `store`     durable facts. Ports, records, errors; the MySQL and SQLite backends behind the ports.
- `service`   trio. The hand that turns the wheel, promotion, claims, retries, HTTP, the command line.
- `client`    the producer and the consumer that users import. Stands alone.
- `pipeline`  PySpark over the store and the lake.

ARCHITECTURE.md tells why.
"""

__version__ = "0.1.0"
