// Before anything is drawn: the theme that this browser was told, if it was.
"use strict";
try {
  const told = localStorage.getItem("tarry-theme");
  if (told === "dark" || told === "light") document.documentElement.dataset.theme = told;
} catch {
  // No storage: the system's theme.
}
