"""Operations on recorded histories: reading older versions, replay, comparison, forks and reopening."""
