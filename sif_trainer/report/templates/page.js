"use strict";
// Draws the page's plots from its embedded data, in the page's own colours; makes each one's CSV and its table.

const DATA = JSON.parse(document.getElementById("data").textContent);
const COLORS = 8;
const DASHES = ["solid", "dash", "dot"];

function cssValue(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function colorOf(place) {
  return cssValue(`--c${place % COLORS}`);
}

function layout(plot, named) {
  const points = plot.form === "points"; // lie on their side: names are long, and phones narrow
  const axis = { gridcolor: cssValue("--line"), zerolinecolor: cssValue("--line"), linecolor: cssValue("--line"), automargin: true };
  return {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", colorway: [cssValue("--c0")],
    font: { color: cssValue("--ink"), family: "system-ui, sans-serif", size: 13 },
    margin: { l: 8, r: 14, t: 8, b: 8 }, hovermode: points ? "closest" : "x unified",
    hoverlabel: { bgcolor: cssValue("--card"), bordercolor: cssValue("--line"), font: { color: cssValue("--ink") } },
    dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom", ...(points ? { scattermode: "group" } : {}),
    showlegend: named > 1, legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, font: { size: 12 } },
    [points ? "yaxis" : "xaxis"]: { ...axis, title: { text: plot.x }, ...(points ? { autorange: "reversed", type: "category" } : {}) },
    [points ? "xaxis" : "yaxis"]: { ...axis, title: { text: plot.y }, tickformat: plot.percent ? ",.2~%" : "",
      rangemode: plot.percent || points ? "tozero" : "normal", ...(plot.percent && points ? { range: [-0.03, 1.03] } : {}) },
  };
}

function traces(plot) {
  const labels = [...new Set(plot.series.map((series) => series.label))];
  const drawn = [];
  for (const series of plot.series) {
    const place = labels.indexOf(series.label);
    const color = colorOf(place);
    const line = { color, width: series.faint ? 1 : series.bold ? 5 : 2, dash: DASHES[Math.floor(place / COLORS) % DASHES.length] };
    const trace = { type: "scatter", name: series.label, legendgroup: series.label, x: series.x, y: series.y, line,
      mode: series.x.length === 1 ? "markers" : "lines", marker: { color, size: 7 }, connectgaps: true };
    if (series.faint) {
      Object.assign(trace, { opacity: 0.3, showlegend: false, hoverinfo: "skip" });
    } else if (plot.form === "stack") {
      Object.assign(trace, { stackgroup: "one", line: { color, width: 0 } });
    } else if (plot.form === "points") {
      Object.assign(trace, { mode: "markers", offsetgroup: series.label, orientation: "h", cliponaxis: false, x: series.y, y: series.x,
        marker: { color, size: 9 } });
      if (series.low) {
        trace.error_x = { type: "data", symmetric: false, color, thickness: 1.5, width: 3,
          array: series.high.map((high, k) => (high === null ? 0 : high - series.y[k])),
          arrayminus: series.low.map((low, k) => (low === null ? 0 : series.y[k] - low)) };
      }
    } else if (series.low) {
      drawn.push({ type: "scatter", x: [...series.x, ...[...series.x].reverse()], y: [...series.high, ...[...series.low].reverse()],
        fill: "toself", fillcolor: color, opacity: 0.18, line: { width: 0 }, mode: "lines", hoverinfo: "skip",
        showlegend: false, legendgroup: series.label });
    }
    drawn.push(trace);
  }
  return drawn;
}

function draw(element, plot) {
  const labels = [...new Set(plot.series.filter((series) => !series.faint).map((series) => series.label))];
  const named = labels.length;
  if (plot.form === "points") {
    const names = new Set(plot.series.flatMap((series) => series.x)).size;
    element.style.height = `${Math.max(11, 5 + names * (1 + 0.7 * named))}rem`;
  } else {
    const columns = Math.max(1, Math.floor(element.clientWidth / (50 + 7 * Math.max(...labels.map((label) => label.length)))));
    element.style.height = `${15 + 1.3 * Math.ceil(named / columns)}rem`; // the legend's lines leave the plot its room
  }
  return Plotly.react(element, traces(plot), layout(plot, named), { responsive: true, displayModeBar: false });
}

function rowsOf(plot) {
  const header = ["series", plot.x || "where", plot.y, "low", "high"];
  const rows = plot.series.flatMap((series) =>
    series.x.map((x, k) => [series.label + (series.faint ? " (single)" : ""), x, series.y[k], series.low?.[k] ?? "", series.high?.[k] ?? ""]));
  return [header, ...rows];
}

function csvOf(plot) {
  const cell = (value) => (/[",\n]/.test(String(value)) ? `"${String(value).replaceAll('"', '""')}"` : String(value ?? ""));
  return rowsOf(plot).map((row) => row.map(cell).join(",")).join("\n") + "\n";
}

function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

function tableOf(rows, label) {
  const [header, ...body] = rows;
  const short = (value) => (typeof value === "number" && !Number.isInteger(value) ? value.toPrecision(4) : String(value ?? ""));
  const head = element("tr", {}, ...header.map((cell) => element("th", { scope: "col", textContent: cell })));
  const lines = body.map((row) => element("tr", {}, ...row.map((cell) => element("td", { textContent: short(cell) }))));
  const table = element("table", {}, element("thead", {}, head), element("tbody", {}, ...lines));
  const box = element("div", { className: "scroll", tabIndex: 0 }, table);
  box.setAttribute("role", "region");
  box.setAttribute("aria-label", label);
  return box;
}

function drawAll() {
  for (const chart of document.querySelectorAll(".chart[data-plot]")) draw(chart, DATA.plots[chart.dataset.plot]);
  document.dispatchEvent(new Event("recolor"));
}

for (const link of document.querySelectorAll("a.csv")) {
  const plot = DATA.plots[link.dataset.plot];
  link.href = URL.createObjectURL(new Blob([csvOf(plot)], { type: "text/csv" }));
  link.download = `${plot.title.toLowerCase().replace(/\W+/g, "-")}.csv`;
}
for (const details of document.querySelectorAll("details.numbers")) {
  const plot = DATA.plots[details.dataset.plot];
  details.addEventListener("toggle", () => details.append(tableOf(rowsOf(plot), `Numbers of ${plot.title}`)), { once: true });
}

const theme = document.getElementById("theme");
const dark = () => (document.documentElement.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
const nameTheme = () => { theme.textContent = dark() ? "Light" : "Dark"; theme.setAttribute("aria-label", `Show in ${dark() ? "light" : "dark"} colours`); };
theme.addEventListener("click", () => {
  document.documentElement.dataset.theme = dark() ? "light" : "dark";
  nameTheme();
  drawAll();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { nameTheme(); drawAll(); });
nameTheme();
if (window.Plotly) drawAll();
