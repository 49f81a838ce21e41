"""What a mind decides: how it is asked, what is admitted of its proposals, and when it goes round in circles."""
