# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings of Sphinx for the site that `make docs` builds (tests/tools/docsite.py copies the
pages beside this file first).
"""

project = "gpufleet.nvidia"
copyright = "The gpufleet.nvidia contributors"
html_title = "gpufleet.nvidia"
html_short_title = "gpufleet.nvidia"

extensions = ["sphinx.ext.intersphinx", "sphinx_antsibull_ext", "myst_parser"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
myst_heading_anchors = 4

html_theme = "sphinx_ansible_theme"
html_show_sphinx = False
html_use_modindex = False
html_use_index = False
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
highlight_language = "YAML+Jinja"
pygments_style = "ansible"

# The few pages of Ansible's own documentation that module pages link to; the file is written by
# docsite.py, so that no network is needed.
intersphinx_mapping = {
    "ansible": ("https://docs.ansible.com/projects/ansible/devel/", "ansible.inv")
}
