"use strict";
// Draws one figure of the report with Chart.js.
const charts = (() => {
  const markShapes = ["circle", "rect", "triangle", "rectRot"];

  // Axes begin and end at round numbers.

  // 1, 2 or 5 times a power of ten, and not below `least`.
  function roundStep(least) {
    const power = 10 ** Math.floor(Math.log10(least));
    return power * ([1, 2, 5].find((factor) => factor * power >= least * (1 - 1e-9)) ?? 10);
  }

  function multiples(step, low, high) {
    const values = [];
    for (let count = Math.ceil(low / step - 1e-6); count <= Math.floor(high / step + 1e-6); ++count) values.push(count * step);
    return values;
  }

  // The smallest and the largest number.
  function extentOf(values) {
    const numbers = values.filter(Number.isFinite);
    return numbers.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity]);
  }

  // Values so near each other are one and the noise of float32. Whole ones, as steps, have no noise.
  const isOneValue = ([low, high], whole = false) => (whole ? high === low : high - low <= 1e-5 * Math.max(Math.abs(low), Math.abs(high)));

  // A single value stands in the middle between zero and twice as much; zero is shown where it is near.
  function linearAxis(extent, { whole = false, most = Infinity, room = 0.02 } = {}) {
    let [low, high] = extent;
    if (low > high) return { low: 0, high: 1, ticks: [0, 1] };
    if (isOneValue(extent, whole)) {
      [low, high] = [Math.min(0, 2 * low), Math.max(0, 2 * high)];
      if (low === high) high = 1;
    } else {
      const more = room * (high - low);
      [low, high] = [low >= 0 && low < 0.25 * high ? 0 : low - more, high <= 0 && high > 0.25 * low ? 0 : high + more];
    }
    if (extent[1] <= most) high = Math.min(high, most);
    const step = Math.max(whole ? 1 : 0, roundStep((high - low) / 5));
    low = step * Math.floor(low / step + 1e-6);
    high = step * Math.ceil(high / step - 1e-6);
    return { low, high, ticks: multiples(step, low, high) };
  }

  function logarithmicAxis(extent) {
    if (!(extent[0] > 0)) return { low: 1, high: 10, ticks: [1, 10] };
    const around = isOneValue(extent) ? 2.5 : 1.25;
    const [low, high] = [extent[0] / around, extent[1] * around];
    const powers = Math.log10(high / low);
    if (powers <= 1) return { low, high, ticks: multiples(roundStep((high - low) / 5), low, high) };
    const [factors, apart] = powers <= 3.5 ? [[1, 2, 5], 1] : [[1], Math.ceil(powers / 8)];
    const ticks = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); ++power) {
      if (power % apart === 0) ticks.push(...factors.map((factor) => Number(`${factor}e${power}`)));
    }
    return { low, high, ticks: ticks.filter((tick) => tick >= low && tick <= high) };
  }

  // A few values, such as numbers of ranks, have their ticks there.
  function axisOfFew(values) {
    const margin = values.length === 1 ? 2 : 1.12;
    return { low: values[0] / margin, high: values.at(-1) * margin, ticks: values };
  }

  const timeSteps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 2592000, 31536000];

  function timeAxis(extent) {
    if (extent[0] > extent[1]) return { low: 0, high: 60, ticks: [0, 60] };
    const missing = Math.max(0, 4 - (extent[1] - extent[0])) / 2;
    const [low, high] = [extent[0] - missing, extent[1] + missing];
    const step = timeSteps.find((candidate) => (high - low) / candidate <= 6) ?? timeSteps.at(-1);
    return { low, high, ticks: multiples(step, low, high) };
  }

  function formatTime(seconds, span) {
    const [day, clock] = new Date(1000 * seconds).toISOString().split("T");
    if (span > 4 * 86400) return day;
    if (span > 86400) return `${day.slice(5)} ${clock.slice(0, 5)}`;
    return clock.slice(0, span < 600 ? 8 : 5);
  }

  // "12 300", "0.05", "5e-4": short, and without a trailing .0.
  const isPlain = (size) => size === 0 || (size >= 1e-3 && size < 1e7);
  const withExponent = (value, digits) => (value === 0 ? "0" : String(Number(value.toPrecision(digits)).toExponential()).replace("e+", "e"));
  const plainNumber = (value, digits) => (value === 0 ? "0" : value.toLocaleString("en", { maximumSignificantDigits: digits }).replaceAll(",", "\u2009"));
  const formatNumber = (value) => (isPlain(Math.abs(value)) ? plainNumber(value, 6) : withExponent(value, 4));
  // Of a point: a step's digits are all shown.
  const formatPoint = (value) => (Number.isInteger(value) && Math.abs(value) < 1e15 ? plainNumber(value, 15) : formatNumber(value));

  // Ticks of a linear axis are written alike.
  function tickLabel(axis, isLogarithmic) {
    if (isLogarithmic) return formatNumber;
    const largest = Math.max(...axis.ticks.map(Math.abs));
    const withExponents = axis.ticks.map((value) => withExponent(value, 4));
    const tellApart = new Set(withExponents).size === withExponents.length;
    const plain = isPlain(largest) || (!tellApart && largest >= 1 && largest < 1e15);
    return plain ? (value) => plainNumber(value, isPlain(largest) ? 7 : 15) : (value) => withExponent(value, 4);
  }

  // Gives one of Chart.js's scales these ends, ticks and labels.
  function setAxis(scale, axis, label) {
    scale.min = axis.low;
    scale.max = axis.high;
    scale.afterBuildTicks = (built) => { built.ticks = axis.ticks.map((value) => ({ value })); };
    scale.ticks.callback = (value) => label(value);
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

  // A point that no line reaches, as there is nothing beside it.
  function isLonely(points, i) {
    const has = (place) => Number.isFinite(points[place]?.y);
    return has(i) && !has(i - 1) && !has(i + 1);
  }

  const dependsOnAxis = (figure) => typeof figure.x_label === "object";
  const xLabel = (figure, axis) => (dependsOnAxis(figure) ? figure.x_label[axis] : figure.x_label);
  const isTime = (figure, axis) => dependsOnAxis(figure) && axis === "wall";

  function lineDatasets(figure, view) {
    return figure.series.flatMap((series, number) => {
      const colour = view.colour(series.colour);
      const points = pointsOf(figure, series, view.axis);
      const line = {
        label: series.name, number, data: points, spread: series.spread,
        borderColor: colour, backgroundColor: colour, borderWidth: 2, borderDash: series.dashed ? [6, 4] : [],
        pointBackgroundColor: series.dashed ? view.surface : colour, pointRadius: points.map((point, i) => (series.marks || isLonely(points, i) ? 2.5 : 0)), pointBorderWidth: 2, pointHoverRadius: 4,
        showLine: series.joined,
        order: -number,  // later ones lie on top
        clip: 12,  // marks at the frame are drawn whole
        pointStyle: markShapes[Math.floor(Math.max(series.colour, 0) / 8) % 4],
        hidden: view.isHidden(figure, number),
      };
      if (!figure.smoothed || view.smoothing === 0) return [line];
      const raw = { ...line, label: "", borderWidth: 1, borderColor: colour + "44", pointHoverRadius: 0, order: 1 + figure.series.length };
      return [{ ...line, data: smoothed(line.data, view.smoothing) }, raw];
    });
  }

  function scale(title, isLogarithmic, view) {
    return {
      type: isLogarithmic ? "logarithmic" : "linear",
      isLogarithmic,
      title: { display: title !== "", text: title, color: view.muted, font: { size: 12 } },
      grid: { color: view.grid, borderColor: view.grid, tickLength: 4 },
      ticks: { color: view.muted, maxRotation: 0, autoSkipPadding: 14, font: { size: 11 } },
    };
  }

  const most = (label) => (label.endsWith("%") ? 100 : Infinity);

  function setXAxis(x, figure, label, datasets, isATime) {
    const places = datasets.flatMap((dataset) => dataset.data.map((point) => point.x));
    const extent = extentOf(places);
    if (isATime) {
      const axis = timeAxis(extent);
      return setAxis(x, axis, (value) => formatTime(value, axis.high - axis.low));
    }
    if (figure.categories.length > 0) {
      const axis = { low: -0.5, high: figure.categories.length - 0.5, ticks: figure.categories.map((name, i) => i) };
      return setAxis(x, axis, (value) => figure.categories[value]);
    }
    if (figure.x_logarithmic) {
      const values = [...new Set(places)].sort((a, b) => a - b);
      return setAxis(x, values.length > 0 && values.length <= 16 ? axisOfFew(values) : logarithmicAxis(extent), formatNumber);
    }
    const axis = linearAxis(extent, { whole: label === "epoch" || label === "step", most: most(label), room: 0 });
    return setAxis(x, axis, tickLabel(axis, false));
  }

  // With room for the deviations.
  function setYAxis(y, label, datasets) {
    const heights = datasets.flatMap(({ data, spread }) => data.flatMap((point, i) => {
      const more = spread?.[i] ?? 0;
      return [point.y - more, point.y, point.y + more];
    }));
    const axis = y.isLogarithmic ? logarithmicAxis(extentOf(heights.filter((height) => height > 0))) : linearAxis(extentOf(heights), { most: most(label) });
    setAxis(y, axis, tickLabel(axis, y.isLogarithmic));
  }

  function lineChart(figure, view) {
    const datasets = lineDatasets(figure, view);
    const label = xLabel(figure, view.axis);
    const time = isTime(figure, view.axis);
    const x = scale(label, figure.x_logarithmic, view);
    const y = scale(figure.y_label, view.isLogarithmic(figure), view);
    const shown = datasets.filter((dataset) => !dataset.hidden);
    setXAxis(x, figure, label, shown, time);
    setYAxis(y, figure.y_label, shown);
    const place = (value) => figure.categories[value] ?? (time ? formatTime(value, 0) : formatPoint(value));
    const title = (items) => (items.length === 0 ? "" : `${label}: ${place(items[0].parsed.x)}`);
    const line = (item) => {
      const spread = item.dataset.spread?.[item.dataIndex];
      return ` ${item.dataset.label}: ${formatPoint(item.parsed.y)}${spread ? ` \u00b1 ${formatNumber(Number(spread.toPrecision(2)))}` : ""}`;
    };
    return {
      type: "line",
      data: { datasets },
      options: {
        parsing: false, scales: { x, y }, interaction: { mode: "nearest", axis: "x", intersect: false },
        plugins: { tooltip: { callbacks: { title, label: line }, filter: (item) => item.dataset.label !== "", itemSort: (a, b) => a.datasetIndex - b.datasetIndex } },
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
    const whole = (i) => datasets.reduce((sum, { data, hidden }) => sum + (hidden ? 0 : data[i]), 0);
    const axis = linearAxis(extentOf([0, ...labels.map((name, i) => whole(i))]));
    setAxis(value, axis, tickLabel(axis, false));
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

  return { configuration, dependsOnAxis };
})();
