"use strict";
// Plots of all means of the folder, by Plotly. The address records the view, so that a view can be shared.
(() => {
  const section = document.getElementById("explore-part");
  if (!section || !("DecompressionStream" in window)) return;
  section.hidden = false;
  const form = document.getElementById("explore-form");
  const box = document.getElementById("explore-plot");
  const table = document.getElementById("explore-table");
  const note = document.getElementById("explore-note");
  const fields = form.elements;
  const PREFIX = "#explore?";

  const unpacked = async (id) => {
    const bytes = Uint8Array.from(atob(document.getElementById(id).textContent), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  };

  let data;
  let loading;
  const load = () => {
    loading ??= (async () => {
      const [text, library] = await Promise.all([unpacked("explore-data"), unpacked("explore-library")]);
      data = JSON.parse(text);
      const script = document.createElement("script");
      script.textContent = library;
      document.head.append(script);
    })();
    return loading;
  };

  const option = (value, text) => Object.assign(document.createElement("option"), { value, textContent: text });
  const fill = (field, pairs) => {
    const before = field.value;
    field.replaceChildren(...pairs.map(([value, text]) => option(value, text)));
    if (pairs.some(([value]) => value === before)) field.value = before;
  };

  const hidden = new Set();
  const current = () => data.views.find((view) => view.study === fields.study.value && view.dataset + view.label === fields.dataset.value);
  const overview = () => data.overviews[fields.study.value] ?? {};
  const isOverview = () => fields.view.value !== "dataset";

  // The options of each field depend on the fields before it.
  const offer = () => {
    const papers = Object.keys(data.overviews).filter((name) => Object.keys(data.overviews[name]).length);
    const studies = [...new Map(data.views.map((view) => [view.study, view.title ? `${view.study}: ${view.title}` : view.study]))];
    fill(fields.study, isOverview() ? papers.map((name) => [name, name || "your runs"]) : studies);
    const views = data.views.filter((view) => view.study === fields.study.value);
    fill(fields.dataset, views.map((view) => [view.dataset + view.label, view.label]));
    fields.dataset.disabled = isOverview();
    const there = isOverview() ? overview() : current()?.lines ?? {};
    fill(fields.quantity, Object.keys(data.quantities).filter((name) => name in there).map((name) => [name, data.quantities[name].label]));
    fields.x.disabled = fields.view.value === "ranks";
    fields.y.disabled = isOverview();
  };

  const lines = () => {
    const quantity = fields.quantity.value;
    if (fields.view.value === "ranks") return overview()[quantity]?.ranks ?? [];
    if (fields.view.value === "profiles") return overview()[quantity]?.profiles ?? [];
    return current()?.lines[quantity] ?? [];
  };

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  // Black is replaced by the text colour, because it would be invisible on a dark background.
  const ink = (label) => {
    const given = data.styles[label]?.color ?? "#000000";
    return given === "#000000" ? colour("--ink") : given;
  };
  // Plotly interprets tags in text; names are shown verbatim.
  const plain = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
  // Four significant digits, but all digits before the decimal point.
  const number = (value) => {
    if (value === null || value === undefined) return "–";
    const whole = Math.abs(value) >= 1000;
    return String(whole ? Math.round(value) : Number(value.toPrecision(4)));
  };
  const percent = (share) => (share === null || share === undefined ? share : 100 * share);
  const between = (low, high) => (low === null ? "" : ` [${number(low)}, ${number(high)}]`);
  const bars = (line, values) => ({
    type: "data", symmetric: false, thickness: 1, width: 3,
    array: values.map((value, i) => (line.high[i] === null ? 0 : line.high[i] - value)),
    arrayminus: values.map((value, i) => (line.low[i] === null ? 0 : value - line.low[i])),
  });

  const traces = () => {
    const title = plain(data.quantities[fields.quantity.value]?.label ?? "");
    if (fields.view.value === "ranks") {
      const shown = lines().filter((line) => !hidden.has(line.label)).reverse();
      return shown.map((line) => ({
        x: [line.mean], y: [plain(line.label)], mode: "markers", name: plain(line.label),
        marker: { color: ink(line.label), symbol: data.styles[line.label]?.symbol, size: 9 },
        error_x: { type: "data", symmetric: false, array: [line.high === null ? 0 : line.high - line.mean], arrayminus: [line.low === null ? 0 : line.mean - line.low], color: ink(line.label) },
        text: [`${plain(line.label)}<br>mean rank ${number(line.mean)}${between(line.low, line.high)}<br>${line.count} datasets`],
        hovertemplate: "%{text}<extra></extra>",
      }));
    }
    const profile = fields.view.value === "profiles";
    // As in the papers' figures: a method with a single r, where others have several, does not depend on r.
    const grid = profile ? [] : lines().filter((line) => line.r.length > 1).flatMap((line) => line.r);
    return lines().filter((line) => !hidden.has(line.label)).map((given) => {
      const flat = !profile && grid.length > 0 && given.r.length === 1;
      const line = flat ? Object.fromEntries(["n", "centre", "low", "high"].map((name) => [name, [given[name][0], given[name][0]]])) : given;
      line.label = given.label;
      const [x, y] = profile ? [line.factor, line.share] : [flat ? [Math.min(...grid), Math.max(...grid)] : line.r, line.centre];
      const style = data.styles[line.label] ?? {};
      const said = x.map((at, i) => profile
        ? `${plain(line.label)}<br>within ${number(at)} × of the best<br>on ${number(percent(y[i]))} % of the datasets${between(percent(line.low[i]), percent(line.high[i]))}`
        : `${plain(line.label)}<br>r = ${flat ? `${given.r[0]}, independent of r` : at}<br>${title}: ${number(y[i])}${between(line.low[i], line.high[i])}<br>${line.n[i]} repetition${line.n[i] === 1 ? "" : "s"}`);
      return {
        x, y, name: plain(line.label), mode: profile || flat ? "lines" : "lines+markers", text: said, hovertemplate: "%{text}<extra></extra>",
        line: { color: ink(line.label), dash: style.dash, width: 2, shape: profile ? "hv" : "linear" },
        marker: { color: ink(line.label), symbol: style.symbol, size: 7 },
        error_y: profile || flat ? undefined : { ...bars(line, y), color: ink(line.label) },
      };
    });
  };

  const layout = () => {
    const axis = { gridcolor: colour("--line"), linecolor: colour("--line"), zerolinecolor: colour("--line"), automargin: true };
    const kind = fields.view.value;
    const title = plain(data.quantities[fields.quantity.value]?.label ?? "");
    const x = { dataset: "number of dimensions r", ranks: `mean rank by ${title} (1 is best)`, profiles: `factor of the best ${title}` }[kind];
    const y = { dataset: title, ranks: "", profiles: "share of the datasets" }[kind];
    return {
      paper_bgcolor: colour("--card"), plot_bgcolor: colour("--card"), font: { color: colour("--ink"), size: 13 },
      margin: { t: 10, r: 10, b: 50, l: 60 }, height: 440, hovermode: "closest", showlegend: kind !== "ranks",
      legend: { orientation: "h", y: -0.2, itemclick: false, itemdoubleclick: false },
      xaxis: { ...axis, title: { text: x }, type: kind !== "ranks" && fields.x.value === "log" ? "log" : "linear" },
      yaxis: { ...axis, title: { text: y }, type: kind === "ranks" ? "category" : kind === "dataset" && fields.y.value === "log" ? "log" : "linear" },
    };
  };

  // The same numbers as a table, for screen readers and keyboard users.
  const cell = (kind, text) => Object.assign(document.createElement(kind), { textContent: text });
  const write = () => {
    const kind = fields.view.value;
    const statistic = data.quantities[fields.quantity.value]?.statistic ?? "mean";
    const heads = { dataset: ["method", "r", statistic, "low", "high", "repetitions"], ranks: ["method", "mean rank", "low", "high", "datasets"], profiles: ["method", "factor", "share", "low", "high"] }[kind];
    const rows = lines().filter((line) => !hidden.has(line.label)).flatMap((line) => {
      if (kind === "ranks") return [[line.label, ...[line.mean, line.low, line.high, line.count].map(number)]];
      const [x, y] = kind === "profiles" ? [line.factor, line.share] : [line.r, line.centre];
      return x.map((at, i) => [line.label, ...[at, y[i], line.low[i], line.high[i]].map(number), ...(kind === "dataset" ? [String(line.n[i])] : [])]);
    });
    const head = document.createElement("tr");
    head.append(...heads.map((text) => Object.assign(cell("th", text), { scope: "col" })));
    table.tHead.replaceChildren(head);
    table.tBodies[0].replaceChildren(...rows.map((row) => {
      const line = document.createElement("tr");
      line.append(...row.map((text, i) => Object.assign(cell("td", text), { className: i ? "num" : "key" })));
      return line;
    }));
    const selected = overview()[fields.quantity.value];
    note.textContent = isOverview()
      ? selected ? `Over ${selected.problems.length} datasets: ${selected.problems.join(", ")}; the value of a method on a dataset is its mean over r.${selected.omitted.length ? ` Omitted, because run on fewer than half of them: ${selected.omitted.join(", ")}.` : ""}` : "Too few datasets have the same methods."
      : [current()?.stand_in && `Stand-in: ${current().stand_in}.`, statistic === "median" ? "Medians of all timings, with distribution-free 95 % intervals from six timings on." : "Means of all repetitions, with 95 % intervals.", current()?.untimed, current()?.code].filter(Boolean).join(" ");
  };

  const choices = () => {
    const place = document.getElementById("explore-methods");
    place.replaceChildren(...lines().map((line) => {
      const label = document.createElement("label");
      const mark = Object.assign(document.createElement("input"), { type: "checkbox", name: "method", value: line.label, checked: !hidden.has(line.label) });
      label.append(mark, ` ${line.label}`);
      return label;
    }));
  };

  const address = () => {
    const state = new URLSearchParams();
    for (const name of ["view", "study", "dataset", "quantity", "x", "y"]) {
      if (!fields[name].disabled) state.set(name, fields[name].value);
    }
    if (hidden.size) state.set("hide", [...hidden].join("|"));
    history.replaceState(null, "", PREFIX + state);
  };

  const draw = () => {
    write();
    box.setAttribute("aria-label", `Plot: ${fields.quantity.selectedOptions[0]?.textContent ?? "nothing"}; the numbers are in the table below`);
    return Plotly.react(box, traces(), layout(), { displaylogo: false, responsive: true, modeBarButtons: [["zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]] });
  };

  const show = async () => {
    await load();
    offer();
    choices();
    await draw();
    section.dataset.ready = "yes";
  };

  const restore = async () => {
    if (!location.hash.startsWith(PREFIX)) return;
    await load();
    const state = new URLSearchParams(location.hash.slice(PREFIX.length));
    hidden.clear();
    for (const name of (state.get("hide") ?? "").split("|").filter(Boolean)) hidden.add(name);
    // In this order, because each choice determines the options of the next.
    for (const name of ["view", "study", "dataset", "quantity", "x", "y"]) {
      offer();
      if (state.has(name)) fields[name].value = state.get(name);
    }
    await show();
    section.scrollIntoView();
  };

  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", async (event) => {
    const mark = event.target;
    if (mark.name === "method") {
      hidden[mark.checked ? "delete" : "add"](mark.value);
      await draw();
    } else {
      await show();
    }
    address();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { if (section.dataset.ready) draw(); });
  addEventListener("hashchange", restore);
  if (location.hash.startsWith(PREFIX)) restore();
  new IntersectionObserver((seen, observer) => {
    if (seen.some((entry) => entry.isIntersecting)) {
      observer.disconnect();
      if (!section.dataset.ready && !location.hash.startsWith(PREFIX)) show();
    }
  }, { rootMargin: "400px" }).observe(section);
})();
