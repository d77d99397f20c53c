"use strict";
// Sorts a table by the column whose header is clicked: first descending for numbers, ascending for texts.
for (const table of document.querySelectorAll("table.sortable")) {
  const headers = [...table.tHead.rows[0].cells];
  headers.forEach((header, column) => {
    header.querySelector("button").addEventListener("click", () => {
      const body = table.tBodies[0];
      const key = (row) => row.cells[column].dataset.key;
      const known = [...body.rows].filter((row) => key(row) !== "");
      const unknown = [...body.rows].filter((row) => key(row) === "");
      const numeric = known.every((row) => !Number.isNaN(Number(key(row))));
      const before = header.getAttribute("aria-sort");
      const descending = before === null ? numeric : before === "ascending";
      const compare = numeric ? (a, b) => key(a) - key(b) : (a, b) => key(a).localeCompare(key(b), undefined, { numeric: true });
      known.sort((a, b) => (descending ? compare(b, a) : compare(a, b)));
      body.append(...known, ...unknown);
      headers.forEach((other) => other.removeAttribute("aria-sort"));
      header.setAttribute("aria-sort", descending ? "descending" : "ascending");
    });
  });
}
// Shows the rows that contain all words of the field above a table.
for (const field of document.querySelectorAll("input[type=search]")) {
  const rows = [...field.parentElement.querySelector("table").tBodies[0].rows];
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/);
    for (const row of rows) row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
  });
}
// Brings into view what a cell shows when it is opened.
for (const opened of document.querySelectorAll("td details")) {
  opened.addEventListener("toggle", () => opened.scrollIntoView({ block: "nearest", inline: "nearest" }));
}
