"use strict";
// Builds the page from its data. All text goes through textContent.
(() => {
  const find = (id) => document.getElementById(id);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  // Runs and lines have colours that people of any colour vision tell apart: by day those of Okabe and Ito (https://jfly.uni-koeln.de/colour),
  // some a little darker to be read on white. A ninth run has the first one's again, with other marks. Others have places -1, -2, ...:
  // computing, waiting for data, waiting for other ranks, the ideal.
  const palettes = {
    light: {
      runs: ["#0072b2", "#d55e00", "#009e73", "#b3588f", "#e69f00", "#56b4e9", "#5b5b5b", "#241a52"],
      others: ["#7d9bb8", "#e8b04a", "#b5485d", "#8a8f98"],
    },
    dark: {
      runs: ["#7478f6", "#cf4d13", "#42bf6e", "#d172c2", "#f1cd46", "#b8fbff", "#7b706c", "#f5ffcc"],
      others: ["#6d8fb0", "#d9a440", "#d0647a", "#878d97"],
    },
  };
  const axisNames = { epoch: "Epoch", step: "Step", relative: "Relative", wall: "Wall time" };

  const data = JSON.parse(find("data").textContent);
  let printing = false;
  const chosen = { axis: data.axis, smoothing: 0.6, hiddenRuns: new Set(), hiddenSeries: new Set(), logarithmic: new Map() };
  const drawn = new Map();  // a figure's id: its Chart

  function element(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name === "className") made.className = value;
      else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
      else if (value !== false) made.setAttribute(name, value === true ? "" : value);
    }
    made.append(...children);
    return made;
  }

  // How figures look just now.

  const isManyRuns = () => data.runs.length > 1;
  const seriesKey = (figure, number) => `${figure.id}/${figure.series[number].name}`;
  const figures = () => data.sections.flatMap((section) => section.figures ?? []);

  function colour(place) {
    const palette = palettes[dark.matches && !printing ? "dark" : "light"];
    return place < 0 ? palette.others[-1 - place] : palette.runs[place % palette.runs.length];
  }

  function isHidden(figure, number) {
    const isRun = charts.dependsOnAxis(figure) && isManyRuns();
    return (isRun && chosen.hiddenRuns.has(figure.series[number].colour)) || chosen.hiddenSeries.has(seriesKey(figure, number));
  }

  const isLogarithmic = (figure) => chosen.logarithmic.get(figure.id) ?? figure.y_logarithmic;

  function view() {
    const style = getComputedStyle(document.documentElement);
    const of = (name) => style.getPropertyValue(name).trim();
    return {
      axis: chosen.axis, smoothing: chosen.smoothing, colour, isHidden, isLogarithmic,
      text: of("--text"), muted: of("--muted"), grid: of("--grid"), surface: of("--surface"), tooltip: "rgba(24, 27, 32, 0.92)",
    };
  }

  function draw(figure) {
    const canvas = find(`canvas-${figure.id}`);
    drawn.get(figure.id)?.destroy();
    drawn.set(figure.id, new Chart(canvas, charts.configuration(figure, view())));
  }

  const drawAll = () => figures().forEach(draw);
  const drawCurves = () => figures().filter(charts.dependsOnAxis).forEach(draw);

  const flip = (set, item) => { if (!set.delete(item)) set.add(item); };

  // A button that stays pressed while `isOn()`.
  function switchButton(isOn, change, attributes, ...content) {
    const click = (event) => {
      change();
      event.currentTarget.setAttribute("aria-pressed", String(isOn()));
    };
    return element("button", { type: "button", "aria-pressed": String(isOn()), onclick: click, ...attributes }, ...content);
  }

  // Legends.

  function swatch(place, dashed) {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
    for (const [name, value] of Object.entries({ width: 24, height: 8, "aria-hidden": "true" })) svg.setAttribute(name, value);
    for (const [name, value] of Object.entries({ x1: 0, x2: 24, y1: 4, y2: 4, "stroke-width": 2.5 })) line.setAttribute(name, value);
    line.setAttribute("stroke", place === null ? "currentColor" : colour(place));
    if (dashed) line.setAttribute("stroke-dasharray", "6 4");
    svg.append(line);
    return svg;
  }

  function dot(place) {
    const made = element("span", { className: "dot", "aria-hidden": "true" });
    made.style.background = colour(place);
    return made;
  }

  function seriesButton(figure, number) {
    const series = figure.series[number];
    const mark = figure.kind === "lines" ? swatch(series.colour, series.dashed) : dot(series.colour);
    const name = seriesKey(figure, number);
    const toggle = () => { flip(chosen.hiddenSeries, name); draw(figure); };
    return element("li", {}, switchButton(() => !chosen.hiddenSeries.has(name), toggle, {}, mark, series.name));
  }

  const key = (mark, text) => element("li", {}, element("span", { className: "key" }, mark, text));

  function legend(figure) {
    const list = element("ul", { className: "legend" });
    if (charts.dependsOnAxis(figure) && isManyRuns()) {
      const shown = new Set(figure.series.map((series) => series.colour));
      if (shown.size <= 6) for (const place of shown) list.append(key(swatch(place, false), data.runs[place]));
      const dashed = new Set(figure.series.map((series) => series.dashed));
      if (dashed.size > 1) list.append(key(swatch(null, false), "validation"), key(swatch(null, true), "training"));
      else if (dashed.has(true)) list.append(key(swatch(null, true), "training"));
    } else if (figure.series.length > 1) {
      const isNamed = (number) => figure.series.length <= 12 || figure.series[number].colour >= 0;  // of many, those in colour
      for (const number of figure.series.keys()) if (isNamed(number)) list.append(seriesButton(figure, number));
    }
    return list;
  }

  // Figures and tables.

  function canBeLogarithmic(figure) {
    const values = figure.series.flatMap((series) => series.y).filter((y) => y !== null);
    return figure.kind === "lines" && values.length > 1 && values.every((y) => y > 0);
  }

  function logarithmButton(figure) {
    const toggle = () => { chosen.logarithmic.set(figure.id, !isLogarithmic(figure)); draw(figure); };
    return switchButton(() => isLogarithmic(figure), toggle, { title: "Logarithmic scale" }, "log");
  }

  function figureElement(figure) {
    const caption = element("figcaption", {}, element("h3", {}, figure.title));
    if (canBeLogarithmic(figure)) caption.append(logarithmButton(figure));
    const names = figure.series.map((series) => series.name).join("; ");
    const canvas = element("canvas", { id: `canvas-${figure.id}`, role: "img", "aria-label": `Chart: ${figure.title}. ${names}` });
    const made = element("figure", { id: figure.id }, caption, element("div", { className: "canvas" }, canvas), legend(figure));
    if (figure.note) made.append(element("p", { className: "note" }, figure.note));
    return made;
  }

  function tableElement(table, rows) {
    const head = element("tr", {}, ...table.columns.map((column) => element("th", { scope: "col", className: column.is_number ? "number" : "" }, column.title)));
    const body = element("tbody");
    for (const row of rows) {
      const cells = row.cells.map((cell, i) => {
        const classes = [table.columns[i].is_number ? "number" : "", cell.best ? "best" : "", table.columns[i].title === "state" ? "state" : ""].join(" ").trim();
        const made = element(i === 0 ? "th" : "td", { className: classes, scope: i === 0 ? "row" : false }, cell.text || "\u2013");
        if (i === 0 && row.run >= 0 && isManyRuns()) made.prepend(dot(row.run));
        return made;
      });
      body.append(element("tr", { className: row.mark }, ...cells));
    }
    const made = element("div", { className: table.columns.length > 9 ? "dense table" : "table", tabindex: "0", role: "region", "aria-label": table.title }, element("table", {}, element("thead", {}, head), body));
    sizes.observe(made);
    return made;
  }

  // A table's rows; of a long one whose rows may be folded the first openly, the others behind a line.
  function tableElements(table) {
    const shown = table.folded ? 12 : table.rows.length;
    const rest = table.rows.slice(shown);
    const made = [tableElement(table, table.rows.slice(0, shown))];
    if (rest.length > 0) made.push(element("details", {}, element("summary", {}, `and ${rest.length} more ${table.folded}${rest.length > 1 ? "s" : ""}`), tableElement(table, rest)));
    return made;
  }

  // A table that is wider than the page says that it goes on.
  const sizes = new ResizeObserver((entries) => {
    for (const { target } of entries) target.parentElement?.classList.toggle("scrolls", target.scrollWidth > target.clientWidth + 1);
  });

  function originElement({ name, facts, configuration }) {
    const list = element("dl", {}, ...facts.flatMap(([what, text]) => [element("dt", {}, what), element("dd", {}, text)]));
    const yaml = configuration && element("details", {}, element("summary", {}, "configuration"), element("pre", {}, configuration));
    return element("div", {}, data.origins.length > 1 ? element("h3", {}, name) : "", list, yaml);
  }

  // How the runs were made: of one openly, of several behind a line.
  function origins() {
    const made = data.origins.map(originElement);
    return made.length > 1 ? [element("details", {}, element("summary", {}, "how the runs were made"), ...made)] : made;
  }

  function pictureElement(picture) {
    const image = element("img", { src: `data:image/png;base64,${picture.png}`, alt: "" });
    return element("figure", { className: "picture" }, image, element("p", {}, picture.caption));
  }

  function section(title, ...content) {
    return element("section", { "aria-label": title }, element("h2", {}, title), ...content);
  }

  function controls() {
    const form = find("controls");
    const axes = data.axes.map((axis) => {
      const change = () => { chosen.axis = axis; drawCurves(); };
      const input = element("input", { type: "radio", name: "axis", value: axis, checked: axis === chosen.axis, onchange: change });
      return element("label", {}, input, element("span", {}, axisNames[axis]));
    });
    const parts = [element("fieldset", { className: "axes" }, element("legend", {}, "Curves against"), ...axes)];
    const smoothed = figures().filter((figure) => figure.smoothed);
    if (smoothed.length > 0) {
      const change = (event) => { chosen.smoothing = Number(event.target.value); smoothed.forEach(draw); };
      const input = element("input", { type: "range", min: 0, max: 0.99, step: 0.01, value: chosen.smoothing, oninput: change });
      parts.push(element("label", { className: "smoothing" }, "Smoothing", input));
    }
    if (isManyRuns()) parts.push(element("div", { className: "runs", role: "group", "aria-label": "Runs" }, ...data.runs.map(runButton)));
    form.replaceChildren(...parts);
    form.hidden = !figures().some(charts.dependsOnAxis);
  }

  function runButton(name, run) {
    const toggle = () => { flip(chosen.hiddenRuns, run); drawCurves(); };
    return switchButton(() => !chosen.hiddenRuns.has(run), toggle, {}, dot(run), name);
  }

  function warnings() {
    const list = element("ul", {}, ...data.warnings.map((warning) => element("li", {}, warning)));
    find("warnings").replaceChildren(list);
    find("warnings").hidden = data.warnings.length === 0;
  }

  function build() {
    find("summary").textContent = data.summary;
    find("origins").replaceChildren(...origins());
    warnings();
    controls();
    for (const chart of drawn.values()) chart.destroy();
    drawn.clear();
    const parts = [];
    const form = find("controls");
    for (const part of data.sections) {
      if (part.figures?.some(charts.dependsOnAxis) && !parts.includes(form)) parts.push(form);
      const content = [];
      if (part.figures) content.push(element("div", { className: part.figures.length % 3 === 1 ? "pairs figures" : "figures" }, ...part.figures.map(figureElement)));
      else if (part.pictures) content.push(element("div", { className: "pictures" }, ...part.pictures.map(pictureElement)));
      else content.push(...tableElements(part));
      if (part.note) content.push(element("p", { className: "note" }, part.note));
      parts.push(section(part.title, ...content));
    }
    if (parts.length === 0) parts.push(element("p", { className: "nothing" }, "There is nothing to show yet."));
    if (!parts.includes(form)) parts.push(form);
    find("content").replaceChildren(...parts);
    drawAll();
  }

  // The printed page is light.
  function setPrinting(value) {
    printing = value;
    document.documentElement.classList.toggle("for-print", value);
    build();
  }

  build();
  dark.addEventListener("change", build);
  window.addEventListener("beforeprint", () => setPrinting(true));
  window.addEventListener("afterprint", () => setPrinting(false));
})();
