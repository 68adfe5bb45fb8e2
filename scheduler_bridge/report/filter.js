(() => {
  const rows = [...document.getElementById("job-table").tBodies[0].rows];
  const input = document.getElementById("filter");
  input.parentElement.hidden = false;
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
      shown += row.hidden ? 0 : 1;
    }
    document.getElementById("shown").textContent = words.length ? shown + " of " + rows.length : "";
  });
})();
