"""Files for those who run RocketLake: alert rules for Prometheus, dashboards for Grafana.

Owns        these files, and the program that writes the dashboards.
Must not know   the servers.
"""
