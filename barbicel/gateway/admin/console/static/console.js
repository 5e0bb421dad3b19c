// The console: parts of a page that stay fresh, charts from the JSON API, and forms that need the token.
"use strict";

const REFRESH_MS = 2000;
const CHART_MS = 2000;
const TOKEN = "barbicel-token";
const THEME = "barbicel-theme";
const SVG = "http://www.w3.org/2000/svg";

// --- charts ---------------------------------------------------------------------------------------

function element(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

// A line with its area, in a box of 100 by 100 that is stretched to the chart's size.
function draw(svg, values) {
  svg.setAttribute("viewBox", "0 0 100 100");
  svg.setAttribute("preserveAspectRatio", "none");
  const highest = Math.max(...values, 1e-9);
  const points = values.map((value, at) => {
    const x = values.length > 1 ? (at * 100) / (values.length - 1) : 100;
    return `${x.toFixed(2)} ${(96 - (value / highest) * 90).toFixed(2)}`;
  });
  const drawn = [element("line", { class: "rule", x1: 0, x2: 100, y1: 96, y2: 96 })];
  if (points.length > 1) {
    drawn.push(element("path", { class: "area", d: `M0 96 L${points.join(" L")} L100 96 Z` }));
    drawn.push(element("path", { class: "stroke", d: `M${points.join(" L")}` }));
  }
  svg.replaceChildren(...drawn);
}

function drawSparks(root) {
  for (const svg of root.querySelectorAll("svg[data-values]")) {
    draw(svg, svg.dataset.values.split(",").filter(Boolean).map(Number));
  }
}

function shortNumber(value, unit) {
  const step = unit === "B/s" ? 1024 : 1000;
  const prefixes = unit === "B/s" ? ["", "Ki", "Mi", "Gi", "Ti"] : ["", "k", "M", "G", "T"];
  let at = 0;
  while (value >= step && at < prefixes.length - 1) {
    value /= step;
    at += 1;
  }
  return `${value >= 100 || value === 0 ? value.toFixed(0) : value.toFixed(1)} ${prefixes[at]}${unit}`;
}

// What the left end and the top of a chart are: a line without that has no meaning.
function tellScale(svg, series, highest) {
  const seconds = Math.round((series[series.length - 1].time_ms - series[0].time_ms) / 1000);
  const span = seconds < 90 ? `${seconds} s` : `${Math.round(seconds / 60)} min`;
  document.getElementById(svg.dataset.span).textContent = `last ${span}`;
  document.getElementById(svg.dataset.peak).textContent = `peak ${shortNumber(highest, svg.dataset.unit)}`;
}

async function drawCharts() {
  const charts = [...document.querySelectorAll("svg[data-chart]")];
  const answers = new Map();
  for (const url of new Set(charts.map((svg) => svg.dataset.chart))) {
    const answer = await fetch(url);
    if (answer.ok) answers.set(url, await answer.json());
  }
  for (const svg of charts) {
    const series = (answers.get(svg.dataset.chart) || {}).series;
    if (!series) continue;
    const values = series.map((sample) => sample[svg.dataset.field]);
    draw(svg, values);
    const now = document.getElementById(svg.dataset.now);
    if (now && values.length) now.textContent = shortNumber(values[values.length - 1], svg.dataset.unit);
    if (values.length > 1) tellScale(svg, series, Math.max(...values));
  }
}

// --- parts that stay fresh --------------------------------------------------------------------------

async function refresh() {
  if (document.hidden || !document.querySelector("[data-live]")) return;
  const answer = await fetch(location.href);
  if (!answer.ok) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const part of document.querySelectorAll("[data-live]")) {
    const newer = fresh.getElementById(part.id);
    // What somebody has unfolded or works in stays as it is.
    if (!newer || part.contains(document.activeElement) || part.querySelector("details[open]")) continue;
    part.replaceChildren(...newer.childNodes);
    drawSparks(part);
  }
}

function again(work, pause) {
  const step = () => work().catch(() => {}).finally(() => setTimeout(step, pause));
  setTimeout(step, pause);
}

// --- changes ----------------------------------------------------------------------------------------

// Texts of a form as the API wants them: numbers as numbers, and what was left empty not at all.
function bodyOf(form) {
  const body = {};
  for (const field of form.elements) {
    if (!field.name || (field.value === "" && field.dataset.empty !== "keep")) continue;
    body[field.name] = field.type === "number" ? Number(field.value) : field.value;
  }
  if (body.headers !== undefined) {
    body.headers = body.headers
      .split("\n")
      .filter((line) => line.trim())
      .map((line) => {
        const at = line.indexOf(":");
        return at < 0 ? { key: line.trim(), value: "" } : { key: line.slice(0, at).trim(), value: line.slice(at + 1).trim() };
      });
  }
  return body;
}

function tell(form, text, isBad) {
  const outcome = form.querySelector(".outcome") || document.getElementById("outcome");
  outcome.textContent = text;
  outcome.classList.toggle("bad", isBad);
}

async function send(form) {
  const token = sessionStorage.getItem(TOKEN);
  if (!token) {
    document.querySelector(".access").open = true;
    document.querySelector(".access input").focus();
    tell(form, "This needs the token.", true);
    return;
  }
  const button = form.querySelector("button");
  button.disabled = true;
  try {
    const answer = await fetch(form.dataset.post, {
      method: "POST",
      headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
      body: JSON.stringify(bodyOf(form)),
    });
    const told = await answer.json();
    const fields = Object.entries(told).map(([name, value]) => `${name} ${value}`);
    tell(form, answer.ok ? `Done: ${fields.join(", ")}` : told.error, !answer.ok);
    if (answer.ok && form.dataset.then === "reload") location.reload();
  } catch (error) {
    tell(form, `The server cannot be reached: ${error.message}`, true);
  } finally {
    button.disabled = false;
  }
}

// --- the frame --------------------------------------------------------------------------------------

function takeTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
}

function isDark() {
  const theme = document.documentElement.dataset.theme;
  return theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

takeTheme(localStorage.getItem(THEME));

document.addEventListener("DOMContentLoaded", () => {
  const token = document.getElementById("token");
  token.value = sessionStorage.getItem(TOKEN) || "";
  token.addEventListener("input", () => sessionStorage.setItem(TOKEN, token.value.trim()));
  document.getElementById("theme").addEventListener("click", () => {
    const theme = isDark() ? "light" : "dark";
    localStorage.setItem(THEME, theme);
    takeTheme(theme);
  });
  document.addEventListener("submit", (event) => {
    if (event.target.dataset.post === undefined) return;
    event.preventDefault();
    send(event.target);
  });
  drawSparks(document);
  drawCharts().catch(() => {});
  again(refresh, REFRESH_MS);
  again(drawCharts, CHART_MS);
});
