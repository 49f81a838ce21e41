"""Programs that once failed, by a name, or by the seed whose kills made them fail."""

from tests.faults.families import Child
from tests.faults.programs import (
    LONG_S,
    Ask,
    Cancel,
    First,
    Forever,
    Gather,
    Group,
    Handover,
    Line,
    Mended,
    Race,
    Signal,
    Sleep,
    Step,
    Timeout,
    Try,
    Unanswered,
)

PROGRAMS: dict[str, Line] = {
    "child that a deadline cancels": (Timeout((Child((Forever("sleep"),)),), "asyncio", 7.031),),
    "child with a cleanup that a deadline cancels": (
        Timeout((Child((Try((Forever("ask"),), (), (Step(),)),), has_cleanup=True),), "goal", 7.031),
    ),
    "child whose sibling fails": (
        Try((Group(((Child((Step(), Forever("signal"))),), (Step(), Step(fails=9)))),), (Step(),), ()),
    ),
    "child of a child that is cancelled": (
        Cancel((Child((Child((Forever("idempotent"),)),)),), (Step(takes_s=0.5), Step())),
    ),
    "sleep of asyncio in a recorded deadline": (
        Timeout((Sleep(2.113, is_recorded=False), Try((Forever("event"),), (), (Step(),))), "goal", 7.031),
    ),
    "recorded deadline that is reached while the flow is unwound": (
        Race(
            ((Race(((Ask(),), (Forever("ask"),)), "wait"), Timeout((Step(),), "goal", 5.017)), (Step(takes_s=2.0),)),
            "wait",
        ),
    ),
}
"""Small programs; each is killed at every moment."""

SEEDED: dict[int, Line] = {
    425309175674: (
        Group(
            (
                (Mended("step", "pure"),),
                (Gather(((Step("idempotent", takes_s=2.0, fails=1),),), "exceptions"),),
            )
        ),
    ),
    784206594384: (
        Cancel(
            (
                Group(
                    (
                        (
                            Step(takes_s=2.0),
                            Step(takes_s=2.0, has_id=True),
                            Step("once"),
                        ),
                        (
                            Sleep(0.217, is_recorded=False),
                            Step("pure", takes_s=2.0),
                        ),
                        (Handover(3, "pure"),),
                    )
                ),
                Forever("signal"),
            ),
            (
                First(
                    (
                        (
                            Signal(),
                            Ask(LONG_S),
                        ),
                        (
                            Step("pure", fails=1, retry=1, has_id=True),
                            Forever("sleep"),
                        ),
                    )
                ),
            ),
        ),
    ),
    719387941130: (
        Try(
            (
                Group(
                    (
                        (
                            Sleep(0.217, is_recorded=False),
                            Try((Forever("pure"),), (), (Step("pure", is_sync=True, fails=1, retry=1),)),
                        ),
                        (Try((Forever("once"),), (), (Handover(effect="once"),)),),
                        (Step(takes_s=1.0, fails=9),),
                    )
                ),
            ),
            (),
            (),
        ),
    ),
    95000444: (
        Try(
            (
                Group(
                    (
                        (
                            Timeout(
                                (
                                    Unanswered(timeout_s=0.543),
                                    Forever("pure"),
                                ),
                                seconds=0.331,
                            ),
                            Forever("pure"),
                        ),
                        (
                            Timeout(
                                (
                                    Step(takes_s=0.5, fails=1, retry=1),
                                    Forever("once"),
                                ),
                                seconds=7.031,
                            ),
                        ),
                        (
                            Step(takes_s=2.0, fails=1, retry=2),
                            Timeout(
                                (
                                    Step(fails=2, retry=3),
                                    Timeout(
                                        (
                                            Try(
                                                (Forever("sleep"),),
                                                (),
                                                (
                                                    Step("pure", fails=2, retry=2),
                                                    Step(is_sync=True, fails=1, retry=1),
                                                ),
                                            ),
                                        ),
                                        "anyio",
                                        0.331,
                                    ),
                                    Step(takes_s=0.1, has_id=True),
                                ),
                                seconds=LONG_S,
                            ),
                        ),
                        (
                            Step(is_sync=True),
                            Child(
                                (
                                    Step("pure", takes_s=0.5, fails=1, retry=1),
                                    Step(fails=1, retry=1),
                                    Step("pure", takes_s=0.5, has_id=True),
                                    Forever("pure"),
                                )
                            ),
                        ),
                        (
                            Step(fails=2, retry=2, has_id=True),
                            Unanswered("signal", 100.019),
                            Step("pure", fails=1, retry=1),
                            Step(fails=9),
                        ),
                    ),
                    "anyio",
                ),
            ),
            (
                Sleep(2.113, is_recorded=False),
                Unanswered("signal", 0.543),
                Step("once", check=True),
            ),
            (),
        ),
    ),
    784206595962: (
        Try(
            (
                Timeout(
                    (
                        Sleep(2.113, is_recorded=False),
                        Try(
                            (Forever("event"),),
                            (),
                            (
                                Sleep(0),
                                Signal(LONG_S),
                            ),
                        ),
                    ),
                    "goal",
                    7.031,
                ),
                Signal(LONG_S),
                Child(()),
            ),
            (
                Step(is_sync=True),
                Step("once", is_sync=True),
            ),
            (),
        ),
    ),
    784206599341: (
        Try(
            (
                Timeout(
                    (
                        Child((Step("once", takes_s=0.5),)),
                        Timeout(
                            (
                                Cancel(
                                    (
                                        Child(
                                            (
                                                Unanswered("signal", 0.543),
                                                Forever("event"),
                                            ),
                                            has_id=True,
                                        ),
                                    ),
                                    (),
                                ),
                            ),
                            "goal",
                            1.039,
                        ),
                        Step("pure"),
                    ),
                    "goal",
                    1.039,
                ),
                Timeout(
                    (
                        Timeout(
                            (
                                Step("once", has_id=True),
                                Step("once", has_id=True),
                                Signal(),
                                Child(
                                    (
                                        Signal(LONG_S),
                                        Forever("signal"),
                                    ),
                                    has_cleanup=True,
                                ),
                            ),
                            "goal",
                            0.331,
                        ),
                        Try(
                            (Unanswered(timeout_s=100.019),),
                            (Step(takes_s=0.1),),
                            (
                                Step("pure", is_sync=True, fails=2, retry=2, has_id=True),
                                Step("once"),
                            ),
                        ),
                        Try(
                            (Forever("sleep"),),
                            (),
                            (
                                Step(takes_s=0.1),
                                Step("once"),
                                Step(is_sync=True, retry=1),
                            ),
                        ),
                    ),
                    "goal",
                    0.331,
                ),
            ),
            (Step("pure", takes_s=0.5, retry=1),),
            (),
        ),
    ),
    199084579612: (
        Try(
            (
                Gather(
                    (
                        (
                            Step("once", takes_s=0.1, has_id=True),
                            Timeout(
                                (
                                    Timeout(
                                        (
                                            Step("pure", is_sync=True, retry=1),
                                            Step("once", takes_s=0.5),
                                            Step("pure", takes_s=0.1),
                                            Try(
                                                (Forever("once"),),
                                                (),
                                                (
                                                    Handover(3, "pure"),
                                                    Handover(effect="pure"),
                                                    Step(takes_s=0.1),
                                                ),
                                            ),
                                        ),
                                        "goal",
                                        0.331,
                                    ),
                                    Timeout(
                                        (
                                            Step(takes_s=2.0, retry=1, has_id=True),
                                            Handover(1, "pure"),
                                            Forever("sleep"),
                                        ),
                                        seconds=0.331,
                                    ),
                                    Unanswered("signal", 5.017),
                                    Child(
                                        (
                                            Group(
                                                (
                                                    (
                                                        Step("once", takes_s=2.0),
                                                        Step(fails=1, retry=2),
                                                        Forever("ask"),
                                                    ),
                                                    (),
                                                ),
                                                "anyio",
                                            ),
                                        )
                                    ),
                                ),
                                "goal",
                                0.331,
                            ),
                        ),
                    )
                ),
            ),
            (
                Unanswered("signal", 100.019),
                Step(),
            ),
            (),
        ),
    ),
    9990000719: (Try((Timeout((Step("pure", takes_s=30.0, retry=1, timeout_s=1.0),), "goal", 1.039),), (), ()),),
}
"""Programs that have failed with the kills of a seed; most of them were made smaller."""
