# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make this checkout importable as the collection it is, wherever it was cloned to.

Python 3.6 must be able to read this file: the host side's tests run on the Pythons of old hosts,
without Ansible.
"""

import os
import sys

from hypothesis import HealthCheck, settings

ROOT = os.path.dirname(os.path.abspath(__file__))
COLLECTIONS = os.path.join(ROOT, ".cache", "collections")


def link_collection():
    """Make <checkout>/.cache/collections/ansible_collections/gpufleet/nvidia, a link back to the
    checkout.
    """
    namespace = os.path.join(COLLECTIONS, "ansible_collections", "gpufleet")
    link = os.path.join(namespace, "nvidia")
    os.makedirs(namespace, exist_ok=True)
    try:
        os.symlink(os.path.join("..", "..", "..", ".."), link)
    except FileExistsError:
        pass


link_collection()
os.environ["ANSIBLE_COLLECTIONS_PATH"] = COLLECTIONS
for entry in (ROOT, COLLECTIONS):
    if entry not in sys.path:
        sys.path.insert(0, entry)


from tests import draws  # noqa: E402  ROOT is on the path now

# A busy machine is not a reason to fail: no test asserts how long something took.
settings.register_profile(
    "house",
    deadline=None,
    derandomize=not draws.draws_new_examples(),
    max_examples=draws.count_examples(draws.USUAL),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("house")


def pytest_collection_modifyitems(items):
    """Skip tests on real hosts, with the reason, on a machine that cannot carry them."""
    needy = [item for item in items if item.get_closest_marker("lab")]
    if not needy:
        return
    import pytest

    from tests.lab import doctor

    obstacle = doctor.machine_obstacle()
    if obstacle:
        for item in needy:
            item.add_marker(pytest.mark.skip(reason=obstacle))
