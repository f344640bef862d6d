"""The page of reports that the pipeline has made, the latest first."""

from typing import Any

from ..api import part
from ..page import Page
from ..tables import Column, Table
from ..visit import Visit


async def reports(visit: Visit) -> Page:
    """The page with the list of reports, and the chosen one, by default the latest."""
    told: Any = await visit.api.get("/v1/reports")
    found = told["reports"]
    table = Table(
        name="reports",
        caption="Reports",
        columns=(
            Column("report", "Report", "name", to="/ui/reports?report={report}"),
            Column("made_at", "Made", "time"),
        ),
        rows=found,
        path="/v1/reports",
        empty="There is no report in the folder yet. To make one of the last day:",
        teach="tarry pipeline report --output reports/today",
    )
    names = [one["report"] for one in found]
    chosen = visit.asked("report") if visit.asked("report") in names else next(iter(names), None)
    facts = {
        "table": table,
        "folder": told["folder"],
        "chosen": chosen,
        "address": None if chosen is None else f"/v1/reports/{part(chosen)}",
    }
    return Page("reports", "Reports", facts, [table])
