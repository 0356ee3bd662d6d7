"""The report room: plans and runs as tables, drawings and traces.

Its nouns:

- An *explanation* (`explanation.Explanation`) shows a plan before its run; a *report* (`run_report.RunReport`) shows a
  run beside its plan. Both are data, and know four forms: text, HTML, a drawing, plain Python.
- A *table* (`tables.Table`) is titles and cells, made once and rendered by rich or into HTML.
- A *picture* (`picture.Picture`) is boxes, lines and texts with places; `layout` puts nodes, `grouped` segments there;
  `drawing` writes it as one SVG or HTML file that needs nothing else.
- A *trace* (`trace`) is what Chrome's and Perfetto's viewers read.

It computes no plan and runs nothing. rich and jinja2 are imported when something is rendered, never before.
"""
