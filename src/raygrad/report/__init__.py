"""Reports: plans and runs as tables, drawings and traces.

- An *explanation* (`explanation.Explanation`) shows a plan before its run, a *report* (`run_report.RunReport`) a run
  beside its plan. Both are data with four forms: text, HTML, a drawing, plain Python.
- A *table* (`tables.Table`) is titles and cells, rendered by rich or into HTML.
- A *picture* (`picture.Picture`) is boxes, lines and texts with coordinates; `layout` places nodes, `grouped` segments;
  `drawing` writes it as one SVG or HTML file that needs nothing else.
- A *trace* (`trace`) is a file for Chrome's and Perfetto's viewers.

The facts come from `scheduler.explain`; nothing is planned or run here. rich and jinja2 are imported when something is
rendered, never before.
"""
