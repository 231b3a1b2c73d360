# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An API that answers as AWX's, on the loopback interface, as far as awx.awx makes objects.
Requests are kept.

What it refuses is read from AWX 24.6.1: playbooks that the project lacks, surveys that cannot be
asked, answers that no survey asks for, prompts that a job template does not ask, rules that its
scheduler cannot read.
"""

from __future__ import annotations

import copy
import http.server
import json
import threading
import urllib.parse
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any

VERSION = "24.6.1"
TOKEN = "a-token-of-the-tests"
TYPES = {
    "job_templates": "job_template",
    "workflow_job_templates": "workflow_job_template",
    "projects": "project",
    "workflow_approval_templates": "workflow_approval_template",
}
NODES = "workflow_job_template_nodes"
LINKS = ("success_nodes", "failure_nodes", "always_nodes", "credentials")
OF_APPROVAL = ("name", "description", "timeout")  # the serializer drops what else is sent
IDENTITY = {NODES: "identifier"}
Row = dict[str, Any]


class Refused(Exception):
    """A request that is answered with 400, and the reason."""


class Controller:
    """The tables and what was asked. playbooks: what the project's repository has."""

    def __init__(self, playbooks: Iterable[str]) -> None:
        self.playbooks = sorted(playbooks)
        self.tables: dict[str, list[Row]] = {}
        self.links: dict[str, list[int]] = {}
        self.surveys: dict[str, Row] = {}
        self.requests: list[tuple[str, str, Any]] = []
        self.forbidden = False
        for table, name in (
            ("organizations", "Default"),
            ("inventories", "GPU fleet"),
            ("credentials", "ssh"),
        ):
            self.add(table, {"name": name})
        self._server = http.server.ThreadingHTTPServer(
            ("127.0.0.1", 0), type("Bound", (Handler,), {"controller": self})
        )
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Controller:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def environment(self) -> dict[str, str]:
        return {
            "CONTROLLER_HOST": f"http://127.0.0.1:{self._server.server_port}",
            "CONTROLLER_OAUTH_TOKEN": TOKEN,
        }

    def state(self) -> Row:
        return copy.deepcopy({"tables": self.tables, "links": self.links, "surveys": self.surveys})

    def writes(self) -> list[tuple[str, str, Any]]:
        return [entry for entry in self.requests if entry[0] != "GET"]

    def named(self, table: str, name: str) -> Row:
        return next(row for row in self.tables[table] if row[IDENTITY.get(table, "name")] == name)

    def linked(self, table: str, row: Row, kind: str) -> list[Row]:
        ids = self.links.get(f"{row['url']}{kind}/", [])
        return [found for found in self.tables.get(table, []) if found["id"] in ids]

    def survey(self, row: Row) -> Row:
        return self.surveys.get(f"{row['url']}survey_spec/", {})

    # ------------------------------------------------------------ what AWX answers

    def add(self, table: str, fields: Mapping[str, Any]) -> Row:
        number = 1 + sum(map(len, self.tables.values()))
        url = f"/api/v2/{table}/{number}/"
        kept = {
            key: value
            for key, value in fields.items()
            if table != "workflow_approval_templates" or key in OF_APPROVAL
        }
        row: Row = {
            "id": number,
            "type": TYPES.get(table, table.removesuffix("s")),
            "url": url,
            "summary_fields": {},
            "related": {},
            **kept,
        }
        if table in ("job_templates", "workflow_job_templates"):
            row["related"]["survey_spec"] = f"{url}survey_spec/"
        if table == "projects":  # a new project is brought up to date at once
            row.update(scm_revision="", summary_fields={"current_update": {"id": 1}})
        self.tables.setdefault(table, []).append(row)
        return row

    def rows(self, table: str) -> list[Row]:
        if table == "unified_job_templates":
            return [row for name in TYPES for row in self.tables.get(name, [])]
        return self.tables.get(table, [])

    def answer(self, method: str, address: urllib.parse.ParseResult, body: Any) -> tuple[int, Any]:
        parts = [part for part in address.path.split("/") if part][2:]
        if method == "GET":
            return 200, self.get(parts, dict(urllib.parse.parse_qsl(address.query)))
        return (200, self.patch(parts, body)) if method == "PATCH" else self.post(parts, body)

    def get(self, parts: list[str], query: Mapping[str, str]) -> Any:
        if not parts or parts == ["ping"]:
            return {"version": VERSION}
        table = parts[0]
        if table == "project_updates":
            return {"id": 1, "status": "successful"}
        if len(parts) == 1:
            return listed([row for row in self.rows(table) if matches(row, query)])
        row = self.row(parts)
        if len(parts) == 2:
            return row
        require_links(parts)
        if parts[2] == "survey_spec":
            return self.survey(row)
        linked = self.links.get(f"{row['url']}{parts[2]}/", [])
        return listed([{"id": number} for number in linked])

    def row(self, parts: list[str]) -> Row:
        return next(row for row in self.rows(parts[0]) if str(row["id"]) == parts[1])

    def post(self, parts: list[str], body: Row) -> tuple[int, Any]:
        if len(parts) == 1:
            self.judge(parts[0], body)
            return 201, self.add(parts[0], body)
        row = self.row(parts)
        if parts[2] == "survey_spec":
            judge_survey(body)
            self.surveys[f"{row['url']}survey_spec/"] = body
            return 200, {}
        if parts[2] == "create_approval_template":
            template = self.add("workflow_approval_templates", body)
            row["unified_job_template"] = template["id"]
            row["related"]["unified_job_template"] = template["url"]
            return 201, template
        require_links(parts)
        links = self.links.setdefault(f"{row['url']}{parts[2]}/", [])
        if body.get("disassociate"):
            links.remove(body["id"])
        else:
            links.append(body["id"])
        return 204, None

    def patch(self, parts: list[str], body: Row) -> Row:
        row = self.row(parts)
        self.judge(parts[0], {**row, **body})
        row.update(
            {
                key: value
                for key, value in body.items()
                if parts[0] != "workflow_approval_templates" or key in OF_APPROVAL
            }
        )
        return row

    # ------------------------------------------------------------ what AWX refuses

    def judge(self, table: str, fields: Row) -> None:
        if table == "job_templates" and fields["playbook"] not in self.playbooks:
            raise Refused("Playbook not found for project.")
        if table in ("schedules", NODES) and fields.get("unified_job_template"):
            template = next(
                row
                for row in self.rows("unified_job_templates")
                if row["id"] == fields["unified_job_template"]
            )
            self.judge_launch(template, fields, whole=table == "schedules")
        rule = str(fields.get("rrule", ""))
        if table == "schedules" and not all(
            word in rule for word in ("DTSTART", "RRULE", "INTERVAL")
        ):
            raise Refused("Valid DTSTART required in rrule.")

    def judge_launch(self, template: Row, fields: Row, *, whole: bool) -> None:
        """A value that is given at launch has to be asked for. whole: what is required has to be
        given, too, which a workflow does later.
        """
        questions = {entry["variable"]: entry for entry in self.survey(template).get("spec", [])}
        for name, value in (fields.get("extra_data") or {}).items():
            if name not in questions and not template.get("ask_variables_on_launch"):
                raise Refused(f"Variables {name} are not allowed on launch.")
            if (
                questions[name]["type"] == "multiplechoice"
                and value not in questions[name]["choices"]
            ):
                raise Refused(
                    f"Value {value} for '{name}' expected to be one of {questions[name]['choices']}."
                )
        missing = [
            name
            for name, entry in questions.items()
            if entry["required"] and name not in (fields.get("extra_data") or {})
        ]
        if whole and missing:
            raise Refused(f"'{missing[0]}' value missing")
        if fields.get("job_slice_count") and not template.get("ask_job_slice_count_on_launch"):
            raise Refused("Field is not configured to prompt on launch.")


class Handler(http.server.BaseHTTPRequestHandler):
    controller: Controller

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the requests are kept."""

    def _answer(self, status: int, data: Any) -> None:
        body = b"" if data is None else json.dumps(data).encode()
        self.send_response(status)
        headers = {
            "Content-Type": "application/json",
            "X-API-Product-Name": "AWX",
            "X-API-Product-Version": VERSION,
        }
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _ask(self) -> None:
        address = urllib.parse.urlparse(self.path)
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"null")
        self.controller.requests.append((self.command, address.path, body))
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self._answer(401, {"detail": "Authentication credentials were not provided."})
        if self.controller.forbidden:
            return self._answer(
                403, {"detail": "You do not have permission to perform this action."}
            )
        try:
            return self._answer(*self.controller.answer(self.command, address, body))
        except Refused as error:
            return self._answer(400, {"__all__": [str(error)]})
        except StopIteration:
            return self._answer(404, {"detail": "Not found."})

    do_GET = do_POST = do_PATCH = _ask


def require_links(parts: list[str]) -> None:
    """Not found, where an object has no such list."""
    known = {
        NODES: LINKS,
        "job_templates": ("credentials", "survey_spec"),
        "workflow_job_templates": ("survey_spec",),
    }
    if parts[2] not in known.get(parts[0], ()):
        raise StopIteration


def listed(rows: list[Row]) -> Row:
    return {"count": len(rows), "next": None, "previous": None, "results": rows}


def matches(row: Row, query: Mapping[str, str]) -> bool:
    return all(str(row.get(key)) == value for key, value in query.items())


def judge_survey(body: Row) -> None:
    """As awx/api/views/__init__.py does: JobTemplateSurveySpec."""
    for key, kind in (("name", str), ("description", str), ("spec", list)):
        if not isinstance(body.get(key), kind):
            raise Refused(f"'{key}' missing from survey spec.")
    if not body["spec"]:
        raise Refused("'spec' doesn't contain any items.")
    variables = [entry["variable"] for entry in body["spec"]]
    if len(set(variables)) != len(variables):
        raise Refused("'variable' duplicated in survey question.")
    for number, entry in enumerate(body["spec"]):
        missing = {"type", "question_name", "variable", "required"} - set(entry)
        if missing:
            raise Refused(f"{sorted(missing)} missing from survey question {number}.")
        if entry["type"] == "multiplechoice" and entry["default"] not in ("", *entry["choices"]):
            raise Refused("Default choice must be answered from the choices listed.")
        if entry["type"] == "text" and not isinstance(entry.get("default", ""), str):
            raise Refused(
                f"Default value {entry['default']!r} for '{entry['variable']}' is not a text."
            )
