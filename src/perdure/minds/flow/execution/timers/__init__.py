"""The timers of a flow: intercepted, fired by the mind, and recorded; it may import what `execution` may."""
