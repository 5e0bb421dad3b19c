"""One queue, several departments: every child gets every order, and reads at its own pace.

    python examples/kestrel_fanout.py 127.0.0.1:22133

A child of `shop` is a queue named `shop+child`. It is there from the first time that somebody asks for it,
and gets what is put from then on. Nothing is copied: all of them read one log.
"""

import sys

import memcache

QUEUE, CHILDREN = "shop", ("billing", "shipping")


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def read_all(client: memcache.Client, queue: str) -> list[str]:
    """Each get closes the order before and opens the next; the last one closes the last, and finds none."""
    orders = []
    while (order := client.get(f"{queue}/close/open")) is not None:
        orders.append(order)
    return orders


def main(address: str) -> None:
    client = memcache.Client([address])
    for name in (QUEUE, *(f"{QUEUE}+{child}" for child in CHILDREN)):
        read_all(client, name)  # what an earlier run has left

    for order in ("a chair", "a table"):
        if not client.set(QUEUE, order):
            sys.exit(f"{order} was not stored; is there a gateway at {address}?")
    # For one child alone.
    client.set(f"{QUEUE}+billing", "a reminder")

    for child in CHILDREN:
        say(f"{child} has read {read_all(client, f'{QUEUE}+{child}')}")
    say(f"the queue itself has {read_all(client, QUEUE)}")

    ((_, stats),) = client.get_stats()
    say(f"its children are {stats[f'queue_{QUEUE}_children']}")
    client.delete(f"{QUEUE}+shipping")
    client.set(QUEUE, "a lamp")
    say(f"billing has read {read_all(client, f'{QUEUE}+billing')}, and shipping is closed")
    client.disconnect_all()


if __name__ == "__main__":
    main(*(sys.argv[1:] or ["127.0.0.1:22133"]))
