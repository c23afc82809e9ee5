"use strict";
(() => {
  const root = document.documentElement;
  document.getElementById("theme").addEventListener("click", () => {
    const dark = root.classList.contains("dark") || (!root.classList.contains("light") && matchMedia("(prefers-color-scheme: dark)").matches);
    root.classList.remove("dark", "light");
    root.classList.add(dark ? "light" : "dark");
  });

  const search = document.getElementById("search"), classes = document.getElementById("class"), permitted = document.getElementById("permitted");
  const rows = [...document.querySelectorAll("#loops tbody tr")];
  const filter = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word)) || (classes.value && row.dataset.class !== classes.value) ||
        (permitted.checked && row.dataset.permitted !== "1");
      shown += !row.hidden;
    }
    document.getElementById("count").textContent = `${shown} of ${rows.length}`;
  };
  for (const control of [search, classes, permitted]) control.addEventListener("input", filter);
  filter();

  // A block, chosen in the table, the drawing or the listing, is shown in both drawing and listing.
  const choose = (id) => {
    const block = document.getElementById(id);
    if (!block) return;
    for (const old of document.querySelectorAll(".chosen")) old.classList.remove("chosen");
    block.closest("details").open = true;
    block.classList.add("chosen");
    const drawn = document.querySelector(`[data-block="${CSS.escape(id)}"]`);
    drawn?.classList.add("chosen");
    const scroll = (inner) => {
      const outer = inner.closest(".drawing, .listing"), a = inner.getBoundingClientRect(), b = outer.getBoundingClientRect();
      outer.scrollBy({ top: a.top - b.top - 40, left: inner.closest(".drawing") ? a.left - b.left - b.width / 3 : 0 });
    };
    scroll(block);
    if (drawn) scroll(drawn);
    return block;
  };
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#']");
    if (!link) return;
    event.preventDefault();
    const block = choose(link.getAttribute("href").slice(1));
    if (block && !link.closest(".both")) block.closest("details").scrollIntoView({ behavior: "smooth" });
  });
})();
