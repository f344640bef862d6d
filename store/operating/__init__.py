"""Operations of an operator: seek, replay, redrive and purge of a group; erasing messages, access keys, ended
sessions."""
