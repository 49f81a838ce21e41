"""The home and this machine: opening, identity, start-up code, upgrades, checks of histories."""
