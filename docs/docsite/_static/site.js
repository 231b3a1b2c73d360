// Copyright (c) 2026 The gpufleet.nvidia contributors
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

// Give each cell the name of its column, which site.css shows on a phone. Options of modules have
// their own way to stack.
document.addEventListener("DOMContentLoaded", () => {
  const tables = document.querySelectorAll("table.docutils:not(.ansible-option-table)");
  for (const table of tables) {
    const columns = [...table.querySelectorAll("thead th")].map((head) => head.textContent.trim());
    if (!columns.length) continue;
    table.classList.add("stacked");
    for (const row of table.querySelectorAll("tbody tr")) {
      [...row.cells].forEach((cell, place) => {
        if (columns[place]) cell.dataset.column = columns[place];
      });
    }
  }
});
