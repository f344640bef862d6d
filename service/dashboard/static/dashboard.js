// What the pages do by themselves: they stay live, draw the rates, and copy commands. They work without it, but for that.
"use strict";

const dark = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (document.documentElement.dataset.theme || (dark.matches ? "dark" : "light")) === "dark";
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// The theme

document.getElementById("theme")?.addEventListener("click", () => {
  const next = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  try {
    localStorage.setItem("tarry-theme", next);
  } catch {
    // It holds for this page.
  }
  plot?.destroy();
  plot = null;
  draw();
});

// The rates

let plot = null;
const clock = (at) => new Date(at * 1000).toISOString().slice(11, 19);

function draw() {
  const place = document.getElementById("rates");
  const told = document.getElementById("rates-data")?.dataset.series;
  if (!place || !told || !globalThis.uPlot) return;
  const series = JSON.parse(told);
  const many = series.published.length;
  const times = series.published.map((_, index) => series.end - many + index);
  const data = [times, series.published, series.delivered, series.acked];
  if (plot) {
    plot.setData(data);
    return;
  }
  const axis = { stroke: colour("--soft"), grid: { stroke: colour("--rule"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
  const line = (label, name) => ({ label, stroke: colour(name), width: 1.5, points: { show: false } });
  plot = new uPlot({
    width: place.clientWidth,
    height: 180,
    cursor: { y: false },
    scales: { y: { range: (_, low, high) => [0, Math.max(1, high * 1.1)] } },
    axes: [{ ...axis, space: 70, values: (_, splits) => splits.map(clock) }, { ...axis, size: 46 }],
    series: [{ label: "UTC", value: (_, at) => (at === null ? "" : clock(at)) }, line("published", "--blue"), line("delivered", "--green"), line("acked", "--violet")],
  }, data, place);
}

addEventListener("resize", () => {
  const place = document.getElementById("rates");
  if (plot && place) plot.setSize({ width: place.clientWidth, height: 180 });
});

// Live

const region = document.getElementById("live");
const pulse = document.getElementById("pulse");
let source = null;
let overdue = 0;

function say(state, text) {
  if (pulse && pulse.dataset.state !== state) {
    pulse.dataset.state = state;
    pulse.textContent = text;
  }
}

function selecting() {
  const selection = getSelection();
  return selection && !selection.isCollapsed && region.contains(selection.anchorNode);
}

function show(html) {
  if (selecting()) return; // what somebody is about to copy stays
  Idiomorph.morph(region, html, {
    morphStyle: "innerHTML",
    ignoreActiveValue: true,
    callbacks: { beforeAttributeUpdated: (name) => !(name === "open") },
  });
  draw();
}

function listen() {
  if (!region?.dataset.live || source || document.hidden) return;
  source = new EventSource("/ui/live?page=" + encodeURIComponent(region.dataset.live));
  source.addEventListener("open", () => say("live", "live"));
  source.addEventListener("live", (event) => {
    say("live", "live");
    show(event.data);
  });
  source.addEventListener("trouble", (event) => say("lost", event.data));
  source.addEventListener("over", () => location.reload());
  source.addEventListener("error", () => {
    say("lost", "not live: the server is away");
    if (source?.readyState === EventSource.CLOSED) {
      source = null;
      clearTimeout(overdue);
      overdue = setTimeout(listen, 3000);
    }
  });
}

function rest() {
  source?.close();
  source = null;
  say("wait", "resting");
}

document.addEventListener("visibilitychange", () => (document.hidden ? rest() : listen()));
addEventListener("pagehide", rest);
addEventListener("pageshow", listen);
draw();

// Small things

document.addEventListener("click", async (event) => {
  const button = event.target.closest?.("button");
  if (button?.dataset.close !== undefined) document.getElementById("said").replaceChildren();
  if (button?.dataset.copy !== undefined) {
    const code = button.parentElement.querySelector("code");
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
      button.textContent = "Copied";
      setTimeout(() => (button.textContent = "Copy"), 1500);
    } catch {
      getSelection().selectAllChildren(code); // without TLS a page may not copy: it is selected
    }
  }
  for (const menu of document.querySelectorAll("details.copies[open]")) {
    if (!menu.contains(event.target)) menu.open = false;
  }
});

document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  for (const menu of document.querySelectorAll("details.copies[open]")) {
    menu.open = false;
    menu.querySelector("summary").focus();
  }
});

document.addEventListener("change", (event) => {
  if (event.target.dataset.all !== undefined) {
    for (const box of document.querySelectorAll("td.tick input")) box.checked = event.target.checked;
  }
  if (event.target.dataset.submit !== undefined) event.target.form.submit();
});

// A form on which nothing was said is not in the address.
document.addEventListener("submit", (event) => {
  if (event.target.method !== "get") return;
  for (const field of event.target.elements) if (field.name && !field.value) field.disabled = true;
});

// What has been done is seen at once where the page is not live.
document.addEventListener("htmx:afterRequest", (event) => {
  const sure = event.detail.requestConfig?.parameters?.get?.("sure") ?? event.detail.requestConfig?.parameters?.sure;
  if (sure && document.querySelector("form#id")) setTimeout(() => location.reload(), 1500);
});
