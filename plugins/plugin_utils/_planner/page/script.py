# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Add search, filters and sorting to the page. Without the script the page has everything, in the order of urgency."""

from __future__ import annotations

JS = """
'use strict';
(() => {
  const table = document.getElementById('hosts'), tools = document.getElementById('tools');
  if (!table || !tools) return;
  const body = table.tBodies[0], count = document.getElementById('count'), search = document.getElementById('search');
  const rows = [...body.rows].map((row, n) => ({
    row, n, text: row.textContent.toLowerCase(), flags: (row.dataset.flags || '').split(' '),
    facets: Object.fromEntries([...row.cells].map((cell) => [cell.dataset.label, cell.dataset.value || ''])),
  }));
  const order = new Intl.Collator('en', {numeric: true});
  const selects = [...tools.querySelectorAll('select')];
  for (const select of selects.filter((s) => s.dataset.facet)) {
    const values = new Map();
    for (const {facets} of rows) values.set(facets[select.dataset.facet], (values.get(facets[select.dataset.facet]) || 0) + 1);
    for (const [value, number] of [...values].sort((a, b) => order.compare(a[0], b[0]))) {
      if (value) select.add(new Option(value + ' (' + number + ')', value));
    }
    select.hidden = values.size < 2;
  }
  const wanted = (entry, words) => words.every((word) => entry.text.includes(word)) && selects.every((select) => !select.value ||
    (select.dataset.facet ? entry.facets[select.dataset.facet] === select.value : entry.flags.includes(select.value)));
  const show = () => {
    const words = search.value.toLowerCase().split(/\\s+/).filter(Boolean);
    let shown = 0;
    for (const entry of rows) {
      const here = wanted(entry, words);
      entry.row.hidden = !here;
      shown += here;
    }
    count.value = shown === rows.length ? rows.length + ' hosts' : shown + ' of ' + rows.length + ' hosts';
  };
  const heads = [...table.tHead.rows[0].cells];
  const sort = (head, column) => {
    const down = head.getAttribute('aria-sort') === 'ascending', off = head.getAttribute('aria-sort') === 'descending';
    heads.forEach((other) => other.removeAttribute('aria-sort'));
    if (!off) head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
    const key = (entry) => entry.row.cells[column].dataset.value || entry.row.cells[column].textContent;
    const sorted = [...rows].sort((a, b) => off ? a.n - b.n : (down ? -1 : 1) * order.compare(key(a), key(b)) || a.n - b.n);
    body.append(...sorted.map((entry) => entry.row));
  };
  heads.forEach((head, column) => {
    head.tabIndex = 0;
    head.classList.add('s');
    head.addEventListener('click', () => sort(head, column));
    head.addEventListener('keydown', (event) => {
      if (event.key !== 'Enter' && event.key !== ' ') return;
      event.preventDefault();
      sort(head, column);
    });
  });
  search.addEventListener('input', show);
  selects.forEach((select) => select.addEventListener('change', show));
  document.getElementById('reset').addEventListener('click', () => {
    search.value = '';
    selects.forEach((select) => { select.value = ''; });
    show();
  });
  tools.hidden = false;
  show();
})();
"""
