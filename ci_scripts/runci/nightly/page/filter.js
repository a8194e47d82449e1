"use strict";
(() => {
  const name = document.getElementById("filter-name");
  const status = document.getElementById("filter-status");
  const count = document.getElementById("filter-count");
  const form = document.getElementById("filter");
  if (!form) return;
  const metrics = document.querySelectorAll("[data-metric]");
  const rows = document.querySelectorAll("tr[data-metric]:not(.cause)");
  const apply = () => {
    const words = name.value.toLowerCase();
    for (const metric of metrics) {
      const fits = !status.value || metric.dataset.status === status.value;
      metric.hidden = !(fits && metric.dataset.metric.includes(words));
    }
    const shown = Array.from(rows).filter((row) => !row.hidden).length;
    count.textContent = `${shown} of ${rows.length}`;
  };
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", apply);
  form.hidden = false;
  apply();
})();
