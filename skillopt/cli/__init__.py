"""The command line: one file a command."""

import atexit
import gc

# A command makes many objects that live to its end and few cycles. By the defaults it would spend a tenth of its start
# and of every request on looking for cycles, and at its end go through everything once more.
gc.set_threshold(50_000, 20, 20)
atexit.register(gc.freeze)
