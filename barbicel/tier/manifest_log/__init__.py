"""The AOF2 manifest log: every transition of a stream's segments, in chunks that are sealed and uploaded.

    layout          names of files                     replay          chunks and a snapshot → a catalogue
    settings        limits and periods                 recovery        what a directory holds, what to mend
    active_chunk    the chunk that is written          retention       what a disk may forget
    chunk_log       all chunks of a directory          verify, inspect looks that change nothing
    local_stream    append, commit, snapshot, maintain
    stream          the same, and the object store's side: uploading, reconciliation, compaction, remote
    follower        another disk that is brought up to date from the store alone

docs/formats/aof2.md says what is on the disk and in the store.
"""

__all__: list[str] = []
