"""What the tables of an audit say of equations that did not hold at the first look."""

from tarry.pipeline.audit.job import settled

BROKEN = {"topic": "broken", "holds": False, "busy": False}
MOVED = {"topic": "moved", "holds": False, "busy": False}
SOUND = {"topic": "sound", "holds": True, "busy": False}


def test_what_was_not_found_again_is_told_as_moved() -> None:
    told = {"total": 1, "listed": [{"topic": "broken"}]}
    assert settled([BROKEN, MOVED, SOUND], told) == [BROKEN, MOVED | {"holds": None, "busy": True}, SOUND]
    assert settled([SOUND, MOVED], None) == [SOUND, MOVED | {"holds": None, "busy": True}]


def test_of_more_than_are_listed_nothing_is_taken_back() -> None:
    assert settled([BROKEN, MOVED], {"total": 2, "listed": [{"topic": "broken"}]}) == [BROKEN, MOVED]
