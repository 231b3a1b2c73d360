# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the objects that AWX needs, by the modules of awx.awx, or write them as variables of
infra.aap_configuration.
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase
from ansible.plugins.loader import module_loader
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    arguments,
    base,
    messages,
    named_paths,
    online,
    outside,
    own_account,
    run_messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text.sentences import (
    get_last_line,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.awx import objects

SPEC = arguments.derive_argument_spec("awx")
# Option of this module -> option of all modules of awx.awx.
ACCESS = {
    "host": "controller_host",
    "username": "controller_username",
    "password": "controller_password",
    "token": "controller_oauthtoken",
    "validate_certs": "validate_certs",
}
HEAD = "# Made by gpufleet.nvidia.awx: variables of infra.aap_configuration.\n---\n"


class ActionModule(ActionBase):
    _supports_check_mode = True
    _supports_async = False
    _requires_connection = False
    BYPASS_HOST_LOOP = True

    @base.guard_action
    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        args = arguments.read_task_options(self, SPEC)
        items = objects.build_awx_objects(read_awx_options(args))
        if args["file"]:
            return self._write_objects(
                items, objects.build_aap_variables(read_awx_options(args)), args["file"]
            )
        require_collection(args["collection"])
        access = {
            parameter: args[option]
            for option, parameter in ACCESS.items()
            if args[option] is not None
        }
        # The name of an object -> whether any object of that name was changed. A project and its
        # image share one, for example.
        made: dict[str, bool] = {}
        shown = []
        for item in items:
            changed = self._make_objects(item, args["collection"], access, made, task_vars or {})
            made[item.name] = changed or made.get(item.name, False)
            shown.append({"kind": item.kind, "name": item.name, "changed": changed})
        return {"changed": any(made.values()), "objects": shown}

    def _write_objects(
        self, items: tuple[objects.Item, ...], variables: Mapping[str, Any], name: str
    ) -> dict[str, Any]:
        path = named_paths.find_file_to_write(name, "gpufleet_awx_file")
        text = HEAD + yaml.safe_dump(variables, sort_keys=False, width=140, allow_unicode=True)
        changed = not has_awx_text(path, text)
        if changed and not self._task.check_mode:
            outside.write_outside_file(path.parent, path.name, text, "gpufleet_awx_file")
        shown = [{"kind": item.kind, "name": item.name, "changed": changed} for item in items]
        return {"changed": changed, "objects": shown, "file": str(path)}

    def _make_objects(
        self,
        item: objects.Item,
        collection: str,
        access: Mapping[str, Any],
        made: Mapping[str, bool],
        task_vars: dict[str, Any],
    ) -> bool:
        """Make or update an object; return whether it was changed.

        In check mode, an object cannot be compared while another one that it needs does not exist
        yet. It counts as changed.
        """
        if self._task.check_mode and any(made[name] for name in item.needs):
            return True
        given = {**item.options, **access}
        own_account.keep_own_account(self, task_vars)
        with online.interrupt_after(online.CALL, "AWX's API"):
            result = self._execute_module(
                module_name=f"{collection}.{item.kind}", module_args=given, task_vars=task_vars
            )
        if result.get("failed"):
            done = [name for name, changed in made.items() if changed]
            made_before = (
                run_messages.MADE_ONE_BEFORE if len(done) == 1 else run_messages.MADE_SEVERAL_BEFORE
            )
            so_far = (
                made_before.fill(names=", ".join(done))
                if done
                else run_messages.NOTHING_CHANGED_SO_FAR.fill()
            )
            why = get_last_line(str(result.get("msg") or "")) or run_messages.REASON_UNGIVEN.fill()
            row, kind = messages.AWX_NOT_MADE, item.kind.replace("_", " ")
            raise PlanError(row.fill(kind=kind, name=item.name, cause=why, so_far=so_far))
        return bool(result.get("changed"))


def has_awx_text(path: Path, text: str) -> bool:
    """Tell whether the file has just this text. A file that cannot be read has not."""
    try:
        return path.read_bytes() == text.encode()
    except OSError:
        return False


def read_awx_options(args: Mapping[str, Any]) -> objects.Wanted:
    """Return the options of the task as what is wanted in AWX."""
    fields = {field.name for field in dc.fields(objects.Wanted)}
    given: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in args.items()
        if key in fields
    }
    return objects.Wanted(**given)


def require_collection(name: str) -> None:
    """Raise PlanError unless the collection is installed. It is optional, and needed only here."""
    try:
        installed = all(
            module_loader.find_plugin_with_context(f"{name}.{kind}").resolved
            for kind in objects.KINDS
        )
    except AnsibleError:
        installed = False
    if not installed:
        raise PlanError(messages.AWX_COLLECTION.fill(name=name))
