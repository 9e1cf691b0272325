"""Text as Java peers write and read it: string hashes, numbers, JSON that fastjson accepts.

Owns        the forms that Java gives to values.
Must not know   the file or frame that holds the text.
Start reading at    json_text.py
"""
