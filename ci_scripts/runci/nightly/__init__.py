"""The nightly: measure, remember, decide, tell; a package a stage, and between them only data.

benchmark → `samples` → measure → `record` → history (`lines`) → decide → `verdict` → page, notify
"""
