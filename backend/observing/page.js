"use strict";
// Asks the host for its state every second and draws it. Text from the host goes into text nodes only: names are guests' words.
(() => {
  const PERIOD = 1000;
  const NAMESPACE = "http://www.w3.org/2000/svg";
  const find = (id) => document.getElementById(id);
  const make = (tag, text, name) => {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    if (name) element.className = name;
    return element;
  };
  const bytes = (count) => {
    if (count === null) return "?";
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let place = 0;
    while (count >= 1024 && place < units.length - 1) { count /= 1024; place += 1; }
    return `${count.toFixed(place && count < 100 ? 1 : 0)} ${units[place]}`;
  };
  const number = (count) => Math.round(count).toLocaleString("en");
  const seconds = (count) => {
    if (count < 1) return `${(count * 1000).toFixed(count < 0.1 ? 1 : 0)} ms`;
    if (count < 120) return `${count.toFixed(1)} s`;
    return count < 7200 ? `${Math.floor(count / 60)} min` : `${(count / 3600).toFixed(1)} h`;
  };
  const nanoseconds = (counts, name) => seconds((counts[name] || 0) / 1e9);
  let chosen = null;

  // Rows of the history as differences: what grew, for each second.
  const rates = (rows, at, column) => rows.slice(1).map((row, place) => {
    const passed = row[at] - rows[place][at];
    return passed > 0 ? Math.max(0, row[column] - rows[place][column]) / passed : 0;
  });

  const chart = (title, times, lines, shown) => {
    const figure = make("figure"), caption = make("figcaption"), svg = document.createElementNS(NAMESPACE, "svg");
    const most = Math.max(1e-9, ...lines.flatMap((line) => line.values));
    const first = times[0] ?? 0, width = Math.max(1e-9, (times.at(-1) ?? 1) - first);
    svg.setAttribute("viewBox", "0 0 100 30");
    svg.setAttribute("preserveAspectRatio", "none");
    for (const line of lines) {
      const drawn = document.createElementNS(NAMESPACE, "polyline");
      drawn.setAttribute("points", line.values.map((value, place) =>
        `${((times[place] - first) / width * 100).toFixed(2)},${(29 - value / most * 28).toFixed(2)}`).join(" "));
      svg.append(drawn);
      caption.append(make("b", line.name));
    }
    caption.append(make("span", `at most ${shown(most)}`));
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", title);
    figure.append(caption, svg);
    return figure;
  };

  const charts = (state) => {
    const column = (name) => state.columns.indexOf(name), rows = state.history, at = column("at");
    const times = rows.map((row) => row[at]), values = (name) => rows.map((row) => row[column(name)]);
    const between = times.slice(1), rate = (name) => rates(rows, at, column(name));
    find("charts").replaceChildren(
      chart("sessions", times, [{ name: "sessions", values: values("sessions") }, { name: "waiting", values: values("opening") }], number),
      chart("device memory", times, [{ name: "device memory", values: values("memory") }], bytes),
      chart("device time", between, [{ name: "device time, of each second", values: rate("device_seconds") }], seconds),
      chart("kernels", between, [{ name: "kernels/s", values: rate("kernels") }, { name: "round trips/s", values: rate("round_trips") }], number),
      chart("bytes", between, [{ name: "received/s", values: rate("received") }, { name: "sent/s", values: rate("sent") }], bytes));
    return (name) => rate(name).slice(-3).reduce((sum, value, _, all) => sum + value / all.length, 0);
  };

  const tiles = (state, rate) => {
    const now = state.now, tile = (label, value) => {
      const item = make("li", label);
      item.prepend(make("b", value));
      return item;
    };
    find("tiles").replaceChildren(
      tile(`of ${state.session_limit} sessions open`, number(now.sessions)),
      tile("waiting for a session", number(now.opening)),
      tile(`of ${bytes(state.device_memory)} in use`, bytes(now.memory)),
      tile("device working", `${Math.round(rate("device_seconds") * 100)} %`),
      tile("kernels a second", number(rate("kernels"))),
      tile("round trips a second", number(rate("round_trips"))));
  };

  const sessions = (state) => {
    const rows = state.sessions.map((session) => {
      const row = make("tr", undefined, session.name === chosen ? "chosen" : ""), name = make("td"), button = make("button", session.name);
      const meter = make("meter"), quota = make("td"), counts = session.counts, served = session.served;
      button.addEventListener("click", () => { chosen = session.name; refresh(); });
      name.append(button);
      meter.max = session.quota || 1;
      meter.value = session.memory || 0;
      quota.append(meter, ` ${bytes(session.quota)}`);
      row.append(name, make("td", session.program || "?"), make("td", session.pid), make("td", seconds(session.seconds)),
        make("td", bytes(session.memory)), quota, make("td", number(counts.kernels || 0)), make("td", nanoseconds(counts, "device_nanoseconds")),
        make("td", served ? `${served.terms.priority} / ${served.terms.weight}` : "-"),
        make("td", served ? `${seconds(served.service_nanoseconds / 1e9)} / ${seconds(served.waited_nanoseconds / 1e9)}` : "-"),
        make("td", number(counts.round_trips || 0)), make("td", bytes(counts.bytes_in || 0)), make("td", bytes(counts.bytes_out || 0)),
        make("td", `${counts.compilations ?? "-"}, ${nanoseconds(counts, "compilation_nanoseconds")}`));
      return row;
    });
    find("sessions").tBodies[0].replaceChildren(...rows);
    find("none").hidden = rows.length > 0;
    if (chosen && !state.sessions.some((session) => session.name === chosen)) chosen = null;
    if (!chosen && rows.length) chosen = state.sessions[0].name;
  };

  const hex = (address) => `0x${address.toString(16)}`;
  const memory = async () => {
    const map = find("map"), where = find("where");
    find("whose").textContent = chosen ? `of ${chosen}` : "";
    if (!chosen) {
      map.replaceChildren();
      find("groups").replaceChildren();
      where.textContent = "Choose a session in the table to see its allocations.";
      return;
    }
    const answer = await fetch(`memory.json?session=${encodeURIComponent(chosen)}`);
    if (!answer.ok) { where.textContent = "The session does not say now what it has allocated."; return; }
    const found = await answer.json(), all = found.allocations;
    // Widths grow with the size's root: a small allocation beside a large one can still be seen.
    map.replaceChildren(...all.map(([start, size, label]) => {
      const part = make("span", undefined, label.startsWith("mapped") ? "mapped" : label === "allocation" ? "" : "variable");
      part.style.flexGrow = Math.sqrt(size);
      part.title = `${label}: ${bytes(size)} at ${hex(start)}`;
      return part;
    }));
    where.textContent = all.length ?
      `${all.length} allocations, ${bytes(all.reduce((sum, each) => sum + each[1], 0))}, from ${hex(all[0][0])} to ${hex(all.at(-1)[0] + all.at(-1)[1])}` :
      "The session has allocated nothing.";
    groups(found.groups);
  };

  const groups = (found) => {
    if (!found.length) { find("groups").replaceChildren(); return; }
    const table = make("table"), head = make("tr"), shown = found.slice(0, 200);
    head.append(...["translation group", "bytes", "physical address"].map((text) => make("th", text)));
    table.append(head, ...shown.map(([start, physical, length]) => {
      const row = make("tr");
      row.append(make("td", hex(start)), make("td", bytes(length)), make("td", hex(physical)));
      return row;
    }));
    find("groups").replaceChildren(make("p", `${found.length} translation groups${found.length > 200 ? ", the first 200" : ""}`), table);
  };

  const totals = (state) => {
    const entries = [["sessions opened", number(state.totals.opened)]];
    for (const [why, count] of Object.entries(state.totals.refused)) entries.push([`refused: ${why}`, number(count)]);
    for (const [how, count] of Object.entries(state.totals.ended)) entries.push([`ended: ${how}`, number(count)]);
    for (const [name, count] of Object.entries(state.totals.counts))
      entries.push(name.endsWith("_nanoseconds") ? [name.replace("_nanoseconds", " time"), seconds(count / 1e9)] :
        [name.replaceAll("_", " "), name.startsWith("bytes") ? bytes(count) : number(count)]);
    find("totals").replaceChildren(...entries.map(([name, value]) => {
      const entry = make("div");
      entry.append(make("dt", name), make("dd", value));
      return entry;
    }));
  };

  const status = (text, lost) => {
    find("state").textContent = text;
    find("state").className = lost ? "lost" : "";
  };

  const refresh = async () => {
    try {
      const answer = await fetch("state.json");
      if (!answer.ok) throw new Error(`${answer.status}`);
      const state = await answer.json();
      find("identity").textContent = `${state.device}, Farlane ${state.version}, up for ${seconds(state.now.at)}`;
      tiles(state, charts(state));
      sessions(state);
      totals(state);
      await memory();
      status("live", false);
    } catch (error) {
      status(`no answer (${error.message})`, true);
    }
  };

  const again = async () => {
    if (!document.hidden) await refresh();
    setTimeout(again, PERIOD);
  };
  again();
})();
