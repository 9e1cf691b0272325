"""The figures of a broker as Prometheus reads them.

Owns        the families: their names, labels and values. Names and labels are Apache's where it has such a figure.
Must not know   HTTP, the text format.

All is read from what the broker keeps anyway, when a scrape asks for it.
"""
