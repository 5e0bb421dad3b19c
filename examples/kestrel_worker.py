"""Workers that lose nothing: an item is open while it is worked on, and closed when that is done.

    python examples/kestrel_worker.py 127.0.0.1:22133

The client is python-memcached, as it is: options are a part of the key. What is open goes back to the head of
the queue when it is aborted, or when the connection ends, and the next worker gets it.
"""

import sys

import memcache

QUEUE = "thumbnails"
PICTURES = ["lighthouse", "broken", "harbour", "ferry"]


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def put_pictures(address: str) -> None:
    producer = memcache.Client([address])
    for picture in PICTURES:
        # This client raises nothing: it says False, also when nobody is there.
        if not producer.set(QUEUE, picture):
            sys.exit(f"{picture} was not stored; is there a gateway at {address}?")
    producer.disconnect_all()
    say(f"{len(PICTURES)} pictures are waiting")


def shrink(picture: str, attempt: int) -> None:
    """The work."""
    if picture == "broken" and attempt == 1:
        raise ValueError("it has no end")


def work(address: str, name: str, most: int) -> None:
    """At most so many pictures; fewer if none came for a while."""
    worker = memcache.Client([address])
    attempts: dict[str, int] = {}
    for _ in range(most):
        # It waits half a second for an item.
        picture = worker.get(f"{QUEUE}/open/t=500")
        if picture is None:
            break
        attempts[picture] = attempts.get(picture, 0) + 1
        try:
            shrink(picture, attempts[picture])
        except ValueError as error:
            worker.get(f"{QUEUE}/abort")
            say(f"{name} gave {picture} back: {error}")
        else:
            worker.get(f"{QUEUE}/close")
            say(f"{name} has done {picture}")
    worker.disconnect_all()


def die_at_work(address: str) -> None:
    """It takes a picture and is gone. A process that crashes does the same."""
    worker = memcache.Client([address])
    say(f"worker 2 has {worker.get(f'{QUEUE}/open')}, and dies")
    worker.disconnect_all()


def main(address: str) -> None:
    put_pictures(address)
    work(address, "worker 1", most=3)
    die_at_work(address)
    work(address, "worker 3", most=100)
    say("nothing is left")


if __name__ == "__main__":
    main(*(sys.argv[1:] or ["127.0.0.1:22133"]))
