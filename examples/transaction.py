"""Consume, transform and produce in one transaction: the result and the acknowledgement are both visible, or neither.

Run a broker (`flotilla serve`), then `python examples/transaction.py`.
"""

import os

from flotilla import Client

SERVERS = os.environ.get("FLOTILLA_SERVERS", "localhost:7600")
ORDERS = "example-orders"
INVOICES = "example-invoices"

with Client(SERVERS) as client:
    client.create_topic(ORDERS, nack_backoff_ms=0, if_not_exists=True)
    client.create_topic(INVOICES, if_not_exists=True)
    client.produce_many(ORDERS, [b"order %d" % number for number in range(3)])

    with client.queue(ORDERS, group="billing") as queue:
        left = 3
        for message in queue:
            try:
                # The transaction commits at the end of the block and aborts on an exception.
                with message, client.transaction() as txn:
                    txn.produce(INVOICES, b"invoice for " + message.payload)
                    txn.ack(message)
                    if message.attempt == 1 and message.payload == b"order 1":
                        raise RuntimeError("crashed before the commit")
                left -= 1
            except RuntimeError as error:
                print(f"{message.text}: {error}; it is delivered again")
            if not left:
                break

    # The aborted attempt left nothing behind: there is one invoice for each order.
    with client.reader(INVOICES, offset=0) as reader:
        print("invoices:", sorted(message.text for message in reader.poll()))

    client.delete_topic(INVOICES)
    client.delete_topic(ORDERS)
