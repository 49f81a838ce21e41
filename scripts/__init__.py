"""Programs for those who build Perdure; never part of what is installed."""
