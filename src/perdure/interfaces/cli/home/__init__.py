"""The commands for the home: settings, database, doctor, server and token."""
