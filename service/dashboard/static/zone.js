// In which zone times are shown, and typed: UTC, or the browser's own if this browser was told so. Pages come in UTC.
"use strict";

const zone = (() => {
  const here = Intl.DateTimeFormat().resolvedOptions().timeZone || "local time";
  const months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
  const typed = new WeakMap(); // of a field for a time: in which zone its text is
  const two = (number) => String(number).padStart(2, "0");
  let local = false;
  try {
    local = localStorage.getItem("tarry-zone") === "local";
  } catch {
    // No storage: UTC.
  }

  // The same moment as one whose UTC parts are those of the zone
  function parts(at, inLocal) {
    return inLocal ? new Date(Date.UTC(at.getFullYear(), at.getMonth(), at.getDate(), at.getHours(), at.getMinutes(), at.getSeconds(), at.getMilliseconds())) : at;
  }

  function whole(at, inLocal, length) {
    return parts(at, inLocal).toISOString().slice(0, length).replace("T", " ");
  }

  const forms = {
    clock: (at) => parts(at, local).toISOString().slice(11, 16),
    seconds: (at) => parts(at, local).toISOString().slice(11, 19),
    day: (at) => `${two(parts(at, local).getUTCDate())} ${months[parts(at, local).getUTCMonth()]}`,
  };

  function name(inLocal) {
    return inLocal ? here : "UTC";
  }

  // What a field says, in the other zone
  function turned(text, toLocal) {
    const at = new Date(toLocal ? `${text}Z` : text);
    return Number.isNaN(at.getTime()) ? text : parts(at, toLocal).toISOString().slice(0, 19);
  }

  function show(root = document) {
    for (const one of root.querySelectorAll("time[datetime]")) {
      const at = new Date(one.dateTime);
      if (Number.isNaN(at.getTime())) continue;
      const length = one.dateTime.includes(".") ? 23 : 19;
      one.textContent = whole(at, local, length);
      one.title = `${whole(at, !local, length)} ${name(!local)}`;
    }
    for (const one of root.querySelectorAll("[data-at]")) {
      one.textContent = forms[one.dataset.form](new Date(Number(one.dataset.at))) + (one.dataset.rest ?? "");
    }
    for (const one of root.querySelectorAll("[data-zone]")) one.textContent = local ? "local time" : "UTC";
    for (const field of root.querySelectorAll("input[type=datetime-local]")) {
      const was = typed.get(field) ?? false;
      if (was !== local && field.value) field.value = turned(field.value, local);
      typed.set(field, local);
    }
    const button = document.getElementById("zone");
    if (!button) return;
    document.querySelector(".side .zone").hidden = true;
    button.hidden = false;
    button.textContent = local ? `Times: ${here}` : "Times: UTC";
    button.title = `Show times in ${name(!local)}`;
  }

  // A form is sent in UTC, whatever its fields show
  document.addEventListener("formdata", (event) => {
    for (const field of event.target.elements) {
      if (field.type !== "datetime-local" || !field.value || field.disabled) continue;
      if (typed.get(field)) event.formData.set(field.name, turned(field.value, false));
    }
  });

  document.getElementById("zone")?.addEventListener("click", () => {
    local = !local;
    try {
      localStorage.setItem("tarry-zone", local ? "local" : "utc");
    } catch {
      // It holds for this page.
    }
    show();
    document.dispatchEvent(new Event("tarry:zone"));
  });
  document.addEventListener("htmx:afterSwap", (event) => show(event.detail.target)); // before it is seen
  addEventListener("pageshow", (event) => event.persisted && show());
  show();
  return { show, clock: (seconds, length) => forms[length < 8 ? "clock" : "seconds"](new Date(seconds * 1000)), name: () => name(local) };
})();
