"""What a run folder says, for people: its steps, how the skill came about, comparisons, series for charts.

Reads run folders of this version or the published one, finished, stopped or at work; never writes in one.
"""
