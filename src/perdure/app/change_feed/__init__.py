"""The change feed of a home: notifications of goals that changed in any process. May import the kernel."""
