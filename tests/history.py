"""A small history that has something for every tool, for tests of all the ways to ask."""

from __future__ import annotations

from pathlib import Path

from sync.model import FileEdit
from tests.builders import MINUTE, T0, assistant, copy, fill, session, synthetic, tool, user

APP = "/home/dev/app"
SITE = "/home/dev/site"


def build(path: Path, *, app: str = APP, site: str = SITE) -> Path:
    """Write the history into an index at path. app, site: directories of the two projects."""
    return fill(
        path,
        copy(
            session("ses_login", "Fix the login timeout", at=T0 + 10 * MINUTE, directory=app),
            user("msg_l1", "The login times out after five seconds, see session.ts", at=T0),
            assistant(
                "msg_l2",
                "Looking at the timeout.",
                tool("grep", pattern="setTimeout", output="src/session.ts:12: setTimeout(5000)"),
                at=T0 + MINUTE,
            ),
            assistant(
                "msg_l3",
                tool("edit", filePath=f"{app}/src/session.ts", newString="30_000", output="done"),
                "Raised the limit to thirty seconds.",
                at=T0 + 2 * MINUTE,
                edits=[f"{app}/src/session.ts"],
            ),
            user("msg_l4", "Grüße, 好的! Now the tests \u2028 please", at=T0 + 9 * MINUTE),
            assistant(
                "msg_l5",
                tool("bash", command="npm test", error="exit code 1: flaky test"),
                synthetic("The user opened src/login.test.ts"),
                at=T0 + 10 * MINUTE,
            ),
        ),
        copy(
            session(
                "ses_child",
                "Explore sessions (@explore subagent)",
                at=T0 + 5 * MINUTE,
                parent_id="ses_login",
                directory=app,
            ),
            user("msg_c1", "Find where the login session is kept", at=T0 + 4 * MINUTE),
            assistant("msg_c2", "In src/session.ts.", at=T0 + 5 * MINUTE),
        ),
        copy(
            session("ses_theme", "[Ada] Dark theme", at=T0 - 60 * MINUTE, directory=app),
            user("msg_t1", "Add a dark theme; " + "it must look good. " * 40, at=T0 - 90 * MINUTE),
            assistant(
                "msg_t2",
                "Written. " + "Colours are in theme.css. " * 200,
                at=T0 - 60 * MINUTE,
                edits=[f"{app}/src/theme.css", FileEdit(f"{app}/src/app.ts", None)],
            ),
        ),
        copy(
            session(
                "ses_site",
                "Landing page",
                at=T0 + 20 * MINUTE,
                project_id="prj_site",
                directory=site,
            ),
            user("msg_s1", "The login button of the landing page is ugly", at=T0 + 19 * MINUTE),
            assistant("msg_s2", "Restyled.", at=T0 + 20 * MINUTE, edits=[f"{site}/index.html"]),
        ),
        *(
            copy(
                session(f"ses_many{n}", f"Chore {n}", at=T0 - (100 + n) * MINUTE, directory=app),
                user(f"msg_m{n}", "Bump the dependencies", at=T0 - (100 + n) * MINUTE),
            )
            for n in range(25)
        ),
    )
