"use strict";
// Draws one figure of the report with Chart.js.
const charts = (() => {
  const markShapes = ["circle", "rect", "triangle", "rectRot"];

  // "12 300", "0.05", "5e-4": short, and without a trailing .0.
  function formatNumber(value) {
    const size = Math.abs(value);
    if (size !== 0 && (size < 1e-3 || size >= 1e7)) return String(Number(value.toPrecision(4)).toExponential()).replace("e+", "e");
    return value.toLocaleString("en", { maximumSignificantDigits: 6 }).replaceAll(",", "\u2009");
  }

  // On a logarithmic scale: of 1, 2, 3, ... 10, 20, ... those that are round enough to be read.
  function roundNumber(value) {
    const isWide = this.max / this.min > 1e3;
    const first = Number(value.toExponential()[0]);
    return (isWide ? [1] : [1, 2, 5]).includes(first) || this.options.isFew ? formatNumber(value) : null;
  }

  const timeSteps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 2592000, 31536000];

  function formatTime(seconds, span) {
    const [day, clock] = new Date(1000 * seconds).toISOString().split("T");
    if (span > 4 * 86400) return day;
    if (span > 86400) return `${day.slice(5)} ${clock.slice(0, 5)}`;
    return clock.slice(0, span < 600 ? 8 : 5);
  }

  function timeTicks(scale) {
    const step = timeSteps.find((candidate) => (scale.max - scale.min) / candidate <= 6) ?? 31536000;
    scale.ticks = [];
    for (let value = Math.ceil(scale.min / step) * step; value <= scale.max; value += step) scale.ticks.push({ value });
  }

  // Marks say that the figure is drawn; tests count them.
  const drawnPlugin = {
    id: "drawn",
    afterDraw(chart) { chart.canvas.closest("figure").dataset.drawn = "true"; },
  };

  // A standard deviation above and below each point.
  const spreadPlugin = {
    id: "spread",
    beforeDatasetDraw(chart, { index, meta }) {
      const { spread, borderColor } = chart.data.datasets[index];
      if (!spread?.length || meta.hidden) return;
      const { ctx, chartArea } = chart;
      const clamp = (y) => Math.min(chartArea.bottom, Math.max(chartArea.top, y));
      ctx.save();
      ctx.strokeStyle = borderColor;
      ctx.globalAlpha = 0.6;
      ctx.lineWidth = 1.5;
      meta.data.forEach((point, i) => {
        const { y } = chart.data.datasets[index].data[i];
        if (!spread[i] || !Number.isFinite(y)) return;
        const low = y - spread[i] > 0 || !chart.options.scales.y.isLogarithmic ? clamp(chart.scales.y.getPixelForValue(y - spread[i])) : chartArea.bottom;
        const high = clamp(chart.scales.y.getPixelForValue(y + spread[i]));
        ctx.beginPath();
        for (const end of [low, high]) {
          ctx.moveTo(point.x - 4, end);
          ctx.lineTo(point.x + 4, end);
        }
        ctx.moveTo(point.x, low);
        ctx.lineTo(point.x, high);
        ctx.stroke();
      });
      ctx.restore();
    },
  };

  // An exponential moving average, corrected for its beginning: `weight` is what the past counts.
  function smoothed(points, weight) {
    let mean = 0, total = 0;
    return points.map(({ x, y }) => {
      if (!Number.isFinite(y)) return { x, y };
      mean = weight * mean + (1 - weight) * y;
      total = weight * total + (1 - weight);
      return { x, y: mean / total };
    });
  }

  function pointsOf(figure, series, axis) {
    const places = dependsOnAxis(figure) ? series.x[axis] : series.x;
    const points = [];
    places.forEach((x, i) => {
      if (x !== null) points.push({ x, y: series.y[i] ?? NaN });
    });
    return points;
  }

  const dependsOnAxis = (figure) => typeof figure.x_label === "object";
  const xLabel = (figure, axis) => (dependsOnAxis(figure) ? figure.x_label[axis] : figure.x_label);
  const isTime = (figure, axis) => dependsOnAxis(figure) && axis === "wall";
  const isDense = (figure) => dependsOnAxis(figure) && figure.series.some((series) => !series.marks);

  function lineDatasets(figure, view) {
    return figure.series.flatMap((series, number) => {
      const colour = view.colour(series.colour);
      const line = {
        label: series.name, number, data: pointsOf(figure, series, view.axis), spread: series.spread,
        borderColor: colour, backgroundColor: colour, borderWidth: 2, borderDash: series.dashed ? [6, 4] : [],
        pointRadius: series.marks ? 2.5 : 0, pointHoverRadius: 4, pointStyle: markShapes[Math.floor(Math.max(series.colour, 0) / 8) % 4],
        hidden: view.isHidden(figure, number),
      };
      if (series.marks || !dependsOnAxis(figure) || view.smoothing === 0) return [line];
      const raw = { ...line, label: "", borderWidth: 1, borderColor: colour + "44", pointHoverRadius: 0, order: 1 };
      return [{ ...line, data: smoothed(line.data, view.smoothing) }, raw];
    });
  }

  function scale(title, isLogarithmic, view) {
    return {
      type: isLogarithmic ? "logarithmic" : "linear",
      isLogarithmic,
      title: { display: title !== "", text: title, color: view.muted, font: { size: 12 } },
      grid: { color: view.grid, borderColor: view.grid, tickLength: 4 },
      ticks: { color: view.muted, maxRotation: 0, autoSkipPadding: 14, font: { size: 11 }, callback: isLogarithmic ? roundNumber : formatNumber },
    };
  }

  // A logarithmic scale of a few values, such as numbers of ranks, has its ticks there.
  function ticksAtValues(x, datasets) {
    const values = [...new Set(datasets.flatMap((dataset) => dataset.data.map((point) => point.x)))].sort((a, b) => a - b);
    if (values.length === 0 || values.length > 16) return;
    x.isFew = true;
    x.min = values[0] / 1.12;
    x.max = values.at(-1) * 1.12;
    x.afterBuildTicks = (axis) => { axis.ticks = values.map((value) => ({ value })); };
  }

  // Around a single value: left alone, the axis would reach from one less to one more.
  function roomAroundOne(x, datasets) {
    const values = [...new Set(datasets.flatMap((dataset) => dataset.data.map((point) => point.x)))];
    if (values.length !== 1 || values[0] === 0) return;
    x.min = values[0] - 0.2 * Math.abs(values[0]);
    x.max = values[0] + 0.2 * Math.abs(values[0]);
  }

  // A little room above and below, but none for what can't be: less than nothing, more than all.
  function limits(y, figure) {
    const values = figure.series.flatMap((series) => series.y).filter((value) => value !== null);
    const low = Math.min(...values), high = Math.max(...values);
    if (low >= 0 && low < 0.25 * high) y.min = 0;
    if (figure.y_label.endsWith("%") && high > 90 && high <= 100) y.max = 100;
    y.grace = "4%";
  }

  function lineChart(figure, view) {
    const datasets = lineDatasets(figure, view);
    const label = xLabel(figure, view.axis);
    const time = isTime(figure, view.axis);
    const x = scale(label, figure.x_logarithmic, view);
    const y = scale(figure.y_label, view.isLogarithmic(figure), view);
    if (!y.isLogarithmic) limits(y, figure);
    if (label === "epoch" || label === "step") x.ticks.precision = 0;
    if (figure.x_logarithmic) ticksAtValues(x, datasets);
    else roomAroundOne(x, datasets);
    if (time) {
      x.afterBuildTicks = timeTicks;
      x.ticks.callback = function (value) { return formatTime(value, this.max - this.min); };
    }
    const title = (items) => (items.length === 0 ? "" : `${label}: ${time ? formatTime(items[0].parsed.x, 0) : formatNumber(items[0].parsed.x)}`);
    const line = (item) => {
      const spread = item.dataset.spread?.[item.dataIndex];
      return ` ${item.dataset.label}: ${formatNumber(item.parsed.y)}${spread ? ` \u00b1 ${formatNumber(Number(spread.toPrecision(2)))}` : ""}`;
    };
    return {
      type: "line",
      data: { datasets },
      options: {
        parsing: false, scales: { x, y }, interaction: { mode: "nearest", axis: "x", intersect: false },
        plugins: { tooltip: { callbacks: { title, label: line }, filter: (item) => item.dataset.label !== "" } },
      },
    };
  }

  function barChart(figure, view) {
    const horizontal = figure.x_label === "";
    const value = { ...scale(figure.y_label, false, view), stacked: true };
    const category = { ...scale(figure.x_label, false, view), type: "category", stacked: true };
    category.grid = { display: false, borderColor: view.grid };
    category.ticks = { color: view.text, font: { size: 11 }, autoSkip: false };
    const labels = figure.categories.map((name) => (horizontal ? shortened(name, 28) : name.split(" (").map((part, i) => (i ? "(" : "") + part)));
    const datasets = figure.series.map((series, number) => ({
      label: series.name, data: series.y.map((y) => y ?? 0), backgroundColor: view.colour(series.colour), maxBarThickness: 34,
      hidden: view.isHidden(figure, number), number,
    }));
    const line = (item) => ` ${item.dataset.label}: ${formatNumber(Number(item.raw.toPrecision(4)))} ${figure.y_label.split(" ")[0]}`;
    return {
      type: "bar",
      data: { labels, datasets },
      options: {
        indexAxis: horizontal ? "y" : "x", scales: horizontal ? { x: value, y: category } : { x: category, y: value },
        interaction: { mode: "index", axis: horizontal ? "y" : "x", intersect: false }, plugins: { tooltip: { callbacks: { label: line } } },
      },
    };
  }

  const shortened = (name, length) => (name.length <= length ? name : `\u2026${name.slice(1 - length)}`);

  // What Chart.js is to draw. `view`: axis, smoothing, colours of the page, and what is hidden.
  function configuration(figure, view) {
    const chart = figure.kind === "lines" ? lineChart(figure, view) : barChart(figure, view);
    Object.assign(chart.options, { animation: false, responsive: true, maintainAspectRatio: false });
    chart.options.plugins.legend = { display: false };
    Object.assign(chart.options.plugins.tooltip, {
      usePointStyle: true, boxPadding: 4, padding: 9, titleFont: { weight: "500" }, backgroundColor: view.tooltip, titleColor: "#f2f3f5", bodyColor: "#f2f3f5",
    });
    chart.plugins = [drawnPlugin, spreadPlugin];
    return chart;
  }

  return { configuration, dependsOnAxis, isDense };
})();
