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
  drawAnew();
});

// The rates

document.addEventListener("tarry:zone", () => drawAnew());

function drawAnew() {
  plot?.destroy();
  plot = null;
  draw();
}

let plot = null;
const clock = (at, length = 8) => zone.clock(at, length);

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
  const last = (chart, value, number) => value ?? chart.data[number].at(-1); // where nobody points: the latest
  const line = (label, name) => ({ label, stroke: colour(name), width: 1.5, points: { show: false }, value: last });
  plot = new uPlot({
    width: place.clientWidth,
    height: 180,
    cursor: { y: false },
    scales: { y: { range: (_, low, high) => [0, Math.max(1, high * 1.1)] } },
    axes: [
      { ...axis, size: 24, space: place.clientWidth < 500 ? 40 : 60, values: (_, splits, __, ___, step) => splits.map((at) => clock(at, step < 60 ? 8 : 5)) },
      { ...axis, size: 46, incrs: [1, 2, 5].flatMap((one) => [0, 1, 2, 3, 4, 5, 6].map((power) => one * 10 ** power)).sort((a, b) => a - b) },
    ],
    series: [{ label: zone.name(), value: (...told) => clock(last(...told)) }, line("published", "--blue"), line("delivered", "--green"), line("acked", "--violet")],
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
  const within = region.contains(document.activeElement);
  Idiomorph.morph(region, html, {
    morphStyle: "innerHTML",
    ignoreActiveValue: true,
    callbacks: { beforeAttributeUpdated: (name) => !(name === "open") },
  });
  zone.show(region);
  htmx.process(region); // a button may have come
  if (within && document.activeElement === document.body) giveBack(); // and the one in use may be gone
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
    say("lost", "not live: the server does not answer");
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
  say("wait", "paused while hidden");
}

document.addEventListener("visibilitychange", () => (document.hidden ? rest() : listen()));
addEventListener("pagehide", rest);
addEventListener("pageshow", listen);
draw();

// Small things

document.addEventListener("click", async (event) => {
  const button = event.target.closest?.("button");
  if (button?.dataset.close !== undefined) close();
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

document.addEventListener("change", (event) => {
  if (event.target.dataset.all !== undefined) {
    for (const box of document.querySelectorAll("td.tick input")) box.checked = event.target.checked;
  }
});

// A form on which nothing was said is not in the address.
document.addEventListener("submit", (event) => {
  if (event.target.method !== "get") return;
  for (const field of event.target.elements) if (field.name && !field.value) field.disabled = true;
});

// The keyboard: what is asked takes the focus, and gives it back to the button that led to it; Escape leaves it

const said = document.getElementById("said");
let opener = null;

function giveBack() {
  const main = document.getElementById("main");
  const there = opener?.isConnected && opener.checkVisibility();
  (there ? opener : main.querySelector(".acts button") ?? main).focus();
}

function close() {
  const lost = said.contains(document.activeElement) || document.activeElement === document.body;
  said.replaceChildren();
  if (lost) giveBack();
}

document.addEventListener("htmx:beforeRequest", (event) => {
  const { elt, target } = event.detail;
  if (target !== said || said.contains(elt)) return;
  opener = elt.contains(document.activeElement) ? document.activeElement : elt;
});

document.addEventListener("htmx:afterSettle", (event) => {
  if (event.detail.target !== said) return;
  const asked = said.querySelector("[autofocus]");
  if (asked) asked.focus();
  else if (document.activeElement === document.body) giveBack();
});

document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  const menus = document.querySelectorAll("details.copies[open]");
  for (const menu of menus) {
    menu.open = false;
    menu.querySelector("summary").focus();
  }
  if (!menus.length && said?.hasChildNodes()) close();
});

document.addEventListener("focusout", (event) => {
  const menu = event.target.closest?.("details.copies[open]");
  if (menu && event.relatedTarget && !menu.contains(event.relatedTarget)) menu.open = false;
});

// What has been done is seen at once where the page is not live; who is at a button stays there.
document.addEventListener("htmx:afterRequest", async (event) => {
  const asked = event.detail.requestConfig?.parameters;
  if (!(asked?.get?.("sure") ?? asked?.sure) || !document.querySelector("[data-fresh]")) return;
  const answer = await fetch(location.href);
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const part of document.querySelectorAll("[data-fresh]")) {
    part.replaceChildren(...(page.querySelector(`[data-fresh="${part.dataset.fresh}"]`)?.childNodes ?? []));
    zone.show(part);
  }
});
