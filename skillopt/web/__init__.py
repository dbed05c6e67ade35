"""The dashboard: server-rendered pages over run folders, and trainings started by the command line.

A page shows what a run folder and its events say, so runs started elsewhere show too, and nothing is lost with the
dashboard. Needs the extra ``webui``.
"""
