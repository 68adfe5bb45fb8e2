"""The daemon's state: what is known of jobs and nodes, and the log on disk from which a restart restores it.

``log_entries`` are the words of the log. ``log_state`` is the pure sum of the entries. ``journal`` writes them
through ``store``, an SQLite database, before their effects are carried out; ``restore`` reads them. ``chain`` shows
that they are whole, ``salvage`` takes what is sound from a damaged log. ``state`` is the folder.
"""
