"""Settings: files of keys and values, values that change while a server runs, arguments of public functions.

Owns        reading, checking and replacing settings of any server; refusing arguments of another kind.
Must not know   which settings and functions there are.
Start reading at    config_file.py
"""
