"""Settings: files of keys and values, and values that change while a server runs.

Owns        reading, checking and replacing settings of any server.
Must not know   which settings there are.
Start reading at    config_file.py
"""
