# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Style the page for light, dark, narrow, wide and paper.

The policy names this style by its digest, and allows no other.
"""

from __future__ import annotations

CSS = """
:root{color-scheme:light dark;--bg:#f6f7f9;--card:#fff;--ink:#1a2129;--soft:#5a6673;--line:#dde2e8;--accent:#3a7d0c;--hover:#f0f4f8;
--bad:#b3261e;--bad-bg:#fdecea;--warn:#8a5a00;--warn-bg:#fff4dc;--new:#1558b0;--new-bg:#e8f0fc;--good:#2c6e12;--good-bg:#e9f5e2;
--none-bg:#eceff3;
--mono:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
@media (prefers-color-scheme:dark){:root{--bg:#11151a;--card:#1a2027;--ink:#e6eaef;--soft:#9aa6b3;--line:#2d3641;--accent:#8fd14f;
--hover:#222a33;
--bad:#ff8a80;--bad-bg:#3a1c1c;--warn:#f2c15c;--warn-bg:#382c12;--new:#8ab8ff;--new-bg:#182a44;--good:#9ad873;--good-bg:#1c3014;
--none-bg:#28303a}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;text-size-adjust:100%}
body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,
sans-serif}
main,header>div{max-width:1480px;margin:0 auto;padding:0 24px}
header{background:var(--card);border-bottom:1px solid var(--line);padding:22px 0 20px;margin-bottom:22px}
h1{font-size:24px;line-height:1.25;margin:0;letter-spacing:-.01em}
h2{font-size:17px;margin:34px 0 4px;letter-spacing:-.005em}
h2 .n{color:var(--soft);font-weight:400;margin-left:.35em}
p{margin:0 0 12px}.sub{color:var(--soft);margin:2px 0 0}h2+.sub{margin:0 0 12px}
a{color:inherit}code,.m{font-family:var(--mono);font-size:.87em}
code,dd,li,p,summary,.a{overflow-wrap:anywhere}td{overflow-wrap:break-word}
.share{display:block;width:100%;height:14px;margin:18px 0 12px;border-radius:7px;background:var(--none-bg)}
.tiles{display:flex;flex-wrap:wrap;gap:10px;padding:0;margin:0;list-style:none}
.tiles li{flex:1 1 98px;max-width:190px;background:var(--bg);border:1px solid var(--line);border-radius:10px;padding:9px 13px}
.tiles b{display:block;font-size:25px;line-height:1.15;font-weight:650;font-variant-numeric:tabular-nums}
.tiles span{color:var(--soft);font-size:13px}
.tiles .bad b{color:var(--bad)}.tiles .warn b{color:var(--warn)}.tiles .new b{color:var(--new)}.tiles .good b{color:var(--good)}
.box{background:var(--card);border:1px solid var(--line);border-radius:10px;overflow:hidden}
.case{padding:13px 18px;border-left:4px solid var(--bad)}
.case+.case{border-top:1px solid var(--line)}
.case p{margin:4px 0 0}.case .who{font-weight:600;margin-left:6px}.case ul{
margin:6px 0 0;padding-left:18px;color:var(--soft);font-size:13.5px}
.case.warn{border-left-color:var(--warn)}
.chip{display:inline-block;border-radius:999px;padding:1px 10px;font-size:12.5px;font-weight:600;white-space:nowrap;
background:var(--none-bg);
color:var(--soft)}
.chip.bad{background:var(--bad-bg);color:var(--bad)}.chip.warn{background:var(--warn-bg);color:var(--warn)}
.chip.new{background:var(--new-bg);color:var(--new)}.chip.good{background:var(--good-bg);color:var(--good)}
.flag{margin-left:6px;font-weight:500}
table{border-collapse:collapse;width:100%}
th{font-size:12px;font-weight:600;color:var(--soft);text-align:left;padding:9px 12px;border-bottom:1px solid var(--line);
white-space:nowrap;
background:var(--card)}
td{padding:8px 12px;border-bottom:1px solid var(--line);vertical-align:top}
tbody tr:last-child td{border-bottom:0}tbody tr:hover td{background:var(--hover)}
.odd{color:var(--warn);font-weight:600}.soft{color:var(--soft)}
.hosts th.s{cursor:pointer;user-select:none}.hosts th[aria-sort]{color:var(--ink)}
.hosts th[aria-sort=ascending]::after{content:" \\2191"}.hosts th[aria-sort=descending]::after{content:" \\2193"}
.hosts thead th{position:sticky;top:0;z-index:1}.hosts .box{overflow:clip}
.hosts td:first-child{font-weight:600}
.tools{display:flex;flex-wrap:wrap;gap:8px;align-items:center;margin:0 0 10px}.tools[hidden]{display:none}
.tools input{flex:1 1 240px}.tools input,.tools select,.tools button{font:inherit;font-size:14px;color:inherit;background:var(--card);
border:1px solid var(--line);border-radius:8px;padding:7px 10px;min-width:0;max-width:100%}
.tools select{flex:0 1 160px}.tools output{color:var(--soft);font-size:13.5px;flex:1 0 auto;text-align:right}
:focus-visible{outline:2px solid var(--accent);outline-offset:1px}
details summary{cursor:pointer}details[open]>summary{margin-bottom:8px}
.change{padding:13px 18px}.change+.change{border-top:1px solid var(--line)}
.change>p{margin:0 0 6px}.change ul{list-style:none;margin:0;padding:0}.change li{padding:5px 0}
.from{color:var(--soft)}.to{color:var(--good)}.why{color:var(--soft);font-size:13.5px;display:block}
dl{margin:6px 0 2px;font-size:13.5px}dt{font-weight:600;color:var(--soft);margin-top:8px;font-size:12px}dd{margin:0}
.empty{padding:14px 18px;color:var(--soft)}
footer{color:var(--soft);font-size:13px;padding:26px 0 34px}
@media (max-width:820px){main,header>div{padding:0 14px}h1{font-size:20px}.tiles li{flex-basis:calc(50% - 5px);max-width:none;
padding:8px 12px}
table,tbody,tr,td{display:block}thead{display:none}tbody tr{padding:9px 0;border-bottom:1px solid var(--line)}
tbody tr:last-child{border-bottom:0}
td{border:0;padding:2px 14px;overflow-wrap:anywhere}td[data-label]::before{content:attr(data-label);display:inline-block;min-width:92px;
color:var(--soft);font-size:12.5px;font-weight:400;margin-right:8px}td:empty{display:none}.tools output{text-align:left}
.case,.change{padding:12px 14px}}
@media (min-width:821px){.t{white-space:nowrap}.hosts th:last-child{width:28%}.hosts td:first-child{min-width:9em}}
@media print{:root{--bg:#fff;--card:#fff;--ink:#000;--soft:#444;--line:#bbb}body{font-size:10.5px}.tools{display:none}
header{padding:0 0 8px}
main,header>div{max-width:none;padding:0}.box{border:0;overflow:visible}.hosts thead th{position:static}tr,.case,
.change li{break-inside:avoid}
h2{break-after:avoid;margin-top:16px}.chip,.share,.tiles li{print-color-adjust:exact;-webkit-print-color-adjust:exact}td,
th{padding:3px 6px}}
.share .bad{fill:var(--bad)}.share .warn{fill:#e0a11b}.share .new{fill:#3b82d6}.share .good{fill:#6bb13f}.share .none{fill:#9aa6b3}
.bar{display:inline-block;vertical-align:middle;width:90px;height:8px;margin-left:10px;border-radius:4px;background:var(--none-bg)}
.bar rect{fill:var(--accent)}
"""
