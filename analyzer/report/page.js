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

  // Blocks that touch no CUDA are folded until they are asked for.
  const folded = [...document.querySelectorAll(".block:not([open])")];
  document.getElementById("all").addEventListener("input", (event) => {
    for (const block of folded) block.open = event.target.checked;
  });

  // A drawing is as large as its scale says; dragging moves it, the wheel with Ctrl or Cmd and the buttons change the scale.
  const scales = new WeakMap();
  const zoom = (drawing, scale, x, y) => {
    const svg = drawing.firstElementChild, box = svg.viewBox.baseVal, before = scales.get(drawing) ?? 1;
    const now = Math.min(4, Math.max(0.1, scale));
    const left = (drawing.scrollLeft + x) / before, top = (drawing.scrollTop + y) / before;
    svg.setAttribute("width", box.width * now);
    svg.setAttribute("height", box.height * now);
    scales.set(drawing, now);
    drawing.scrollTo(left * now - x, top * now - y);
  };
  const fit = (drawing) => {
    const box = drawing.firstElementChild.viewBox.baseVal;
    zoom(drawing, Math.min(1, drawing.clientWidth / box.width), 0, 0);
  };
  for (const drawing of document.querySelectorAll(".drawing")) {
    const whole = drawing.closest("details");
    if (whole.open) fit(drawing);
    else whole.addEventListener("toggle", () => fit(drawing), { once: true });
    drawing.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const at = drawing.getBoundingClientRect();
      zoom(drawing, (scales.get(drawing) ?? 1) * Math.exp(-event.deltaY / 300), event.clientX - at.left, event.clientY - at.top);
    }, { passive: false });
    let held = null;
    drawing.addEventListener("pointerdown", (event) => {
      if (event.pointerType === "mouse" && event.button === 0) held = { x: event.clientX, y: event.clientY, moved: false };
    });
    drawing.addEventListener("pointermove", (event) => {
      if (!held) return;
      const x = event.clientX - held.x, y = event.clientY - held.y;
      if (!held.moved && Math.hypot(x, y) < 4) return;
      if (!held.moved) drawing.setPointerCapture(event.pointerId);
      drawing.scrollBy(-x, -y);
      held = { x: event.clientX, y: event.clientY, moved: true };
    });
    const release = () => { drawing.dataset.dragged = held?.moved ? "1" : ""; held = null; };
    drawing.addEventListener("pointerup", release);
    drawing.addEventListener("pointercancel", release);
    drawing.addEventListener("dragstart", (event) => event.preventDefault());
    drawing.addEventListener("click", (event) => {
      if (!drawing.dataset.dragged) return;
      drawing.dataset.dragged = "";
      event.preventDefault();
      event.stopPropagation();
    }, { capture: true });
  }
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-zoom]");
    if (!button) return;
    const drawing = button.closest(".canvas").querySelector(".drawing");
    if (button.dataset.zoom === "fit") return fit(drawing);
    const factor = button.dataset.zoom === "in" ? 1.4 : 1 / 1.4;
    zoom(drawing, (scales.get(drawing) ?? 1) * factor, drawing.clientWidth / 2, drawing.clientHeight / 2);
  });

  // A block, chosen in the table, the drawing or the listing, is shown in both drawing and listing.
  const choose = (id) => {
    const block = document.getElementById(id);
    if (!block) return;
    for (const old of document.querySelectorAll(".chosen")) old.classList.remove("chosen");
    for (let around = block; around; around = around.parentElement.closest("details")) around.open = true;
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
    if (block && !link.closest(".both")) block.closest(".function").scrollIntoView({ behavior: "smooth" });
  });
})();
