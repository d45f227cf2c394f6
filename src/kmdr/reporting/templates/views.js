"use strict";
// The views "Answers", "Explore" and "Which method?". All statistics are computed by kmdr; the scripts choose, order and draw them.
(() => {
  const carrier = document.getElementById("measured");
  if (!carrier || !("DecompressionStream" in window)) return;

  for (const part of document.querySelectorAll(".with-script")) part.hidden = false;
  for (const part of document.querySelectorAll(".without-script")) part.hidden = true;
  const folder = resultsFolder() || "FOLDER";

  let loading;
  const load = () => loading ??= (async () => {
    const bytes = Uint8Array.from(atob(carrier.textContent), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).json();
  })();

  // Values are rounded by kmdr; here they only get the digits of their format: ".3f" is three decimals, ".4g" four
  // significant digits, or all digits before the point.
  const number = (value, form) => {
    if (value === null || value === undefined) return "–";
    const digits = Number(form[1]), size = Math.abs(value);
    const text = form[2] === "f" ? value.toFixed(digits)
      : size >= 10 ** (digits - 1) ? value.toFixed(0)
      : size && size < 1e-6 ? value.toExponential(digits - 1)
      : value.toPrecision(digits);
    return text.replace(/^-(?=[0.]+$)/, "").replaceAll("-", "−"); // zero has no sign
  };
  const interval = (low, high, form) => (low === null ? "" : `[${number(low, form)}, ${number(high, form)}]`);
  // Pad the texts of a column, so that their decimal points are aligned when they are flush right.
  const aligned = (texts) => {
    const decimals = texts.map((text) => /^−?\d+\.(\d+)$/.exec(text)?.[1].length ?? 0);
    const most = Math.max(...decimals, 0);
    return texts.map((text, i) => text + (most && !decimals[i] ? "\u2008" : "") + "\u2007".repeat(most - decimals[i]));
  };
  const estimate = (cell, form) => (cell ? `${number(cell.centre, form)} ${interval(cell.low, cell.high, form)}`.trim() : "–");
  const plural = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;

  const made = (kind, properties = {}, ...children) => {
    const element = Object.assign(document.createElement(kind), properties);
    element.append(...children);
    return element;
  };
  const link = (href, ...children) => made("a", { href }, ...children);
  // Offer (value, text) pairs in a list, and keep the choice if it is still offered.
  const fill = (field, pairs) => {
    const before = field.value;
    field.replaceChildren(...pairs.map(([value, textContent]) => made("option", { value, textContent })));
    if (pairs.some(([value]) => String(value) === before)) field.value = before;
  };

  // Show rows under headings that sort them. A row is an array of cells: {value, text} or {value, nodes}; numbers are flush
  // right, and missing values last in both orders.
  const showTable = (table, heads, rows) => {
    const order = (column, sign) => [...rows].sort((one, other) => {
      const [a, b] = [one[column].value ?? "", other[column].value ?? ""];
      if (a === "" || b === "") return (a === "") - (b === "");
      return sign * (typeof a === "number" ? a - b : a.localeCompare(b, "en", { numeric: true }));
    });
    const body = (ordered) => table.tBodies[0].replaceChildren(...ordered.map((row) => made("tr", { className: row.mark ?? "" },
      ...row.map((cell) => made("td", { className: cell.kind ?? "" }, ...(cell.nodes ?? [cell.text]))))));
    heads.forEach((_, column) => {
      if (!rows.every((row) => typeof (row[column].value ?? 0) === "number" && !row[column].nodes)) return;
      const texts = aligned(rows.map((row) => row[column].text ?? ""));
      rows.forEach((row, i) => { row[column].kind = "num"; row[column].text = texts[i]; });
    });
    const sort = (column, sign) => {
      [...table.tHead.rows[0].cells].forEach((head, i) => {
        if (i === column) head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
        else head.removeAttribute("aria-sort");
      });
      table.dataset.sort = `${column} ${sign}`;
      body(order(column, sign));
    };
    table.tHead.replaceChildren(made("tr", {}, ...heads.map((text, column) => {
      const head = made("th", { scope: "col", className: rows[0]?.[column].kind === "num" ? "num" : "" });
      const button = made("button", { type: "button" }, text);
      button.addEventListener("click", () => sort(column, head.getAttribute("aria-sort") === "ascending" ? -1 : 1));
      head.append(button);
      return head;
    })));
    const [column, sign] = (table.dataset.sort ?? "").split(" ").map(Number);
    if (table.dataset.sort && column < heads.length) sort(column, sign);
    else body(rows);
  };

  // Choose a value of a list and return whether it is offered; if not, choose the nearest number, or change nothing.
  const choose = (field, value) => {
    const offered = [...field.options].map((option) => option.value);
    if (offered.includes(value)) field.value = value;
    else if (Number(value) > 0 && offered.some(Number)) {
      const far = (other) => (Number(other) ? Math.abs(Math.log(other / value)) : Infinity);
      field.value = offered.reduce((best, other) => (far(other) < far(best) ? other : best));
    }
    return offered.includes(value);
  };

  // Keep a form and the address in agreement: "#id?name=value&…" brings back the same view. `offer` fills the lists, each
  // according to the choices before it; `draw` shows the result.
  const connect = (id, form, names, offer, draw) => {
    const prefix = `#${id}?`, fields = form.elements;
    const note = made("p", { className: "banner", hidden: true, role: "status" });
    form.before(note);
    const show = async (choices) => {
      const data = await load(), refused = [];
      for (const name of choices ? names : []) {
        offer(data);
        if (choices.has(name) && !fields[name].disabled && !choose(fields[name], choices.get(name))) refused.push(`${name} = ${choices.get(name)}`);
        if (fields[name].selectedIndex === -1) fields[name].selectedIndex = 0;
      }
      offer(data);
      note.hidden = !refused.length;
      note.textContent = `The address asks for ${refused.join(", ")}, which this report does not have here.`;
      draw(data, choices);
      form.dataset.ready = "yes";
    };
    const restore = () => {
      if (location.hash.startsWith(prefix)) show(new URLSearchParams(location.hash.slice(prefix.length)));
    };
    form.addEventListener("submit", (event) => event.preventDefault());
    onChoice(form, async () => {
      await show();
      const chosen = names.filter((name) => fields[name].value && !fields[name].disabled);
      const state = new URLSearchParams(chosen.map((name) => [name, fields[name].value]));
      for (const box of form.querySelectorAll("input[type=checkbox]:not(:checked)")) state.append("hide", box.value);
      history.replaceState(null, "", prefix + state);
    });
    addEventListener("hashchange", restore);
    if (location.hash.startsWith(prefix)) restore();
    new IntersectionObserver((seen, observer) => {
      if (!seen.some((entry) => entry.isIntersecting)) return;
      observer.disconnect();
      if (!form.dataset.ready && !location.hash.startsWith(prefix)) show();
    }).observe(form);
  };

  // The experiments of a dataset by name; the usual one comes first.
  const named = (data, field) => [...new Map(data.views.map((view) => [view.dataset, view.title]))];
  const viewsOf = (data, dataset) => data.views.filter((view) => view.dataset === dataset);
  const chosenView = (data, fields) =>
    viewsOf(data, fields.dataset.value).find((view) => view.label === fields.settings.value);
  // At first the dataset on which most methods were run is chosen.
  const offerViews = (data, fields) => {
    const isFirst = !fields.dataset.options.length;
    fill(fields.dataset, named(data));
    if (isFirst) fields.dataset.value = data.views.reduce((most, view) => (view.methods.length > most.methods.length ? view : most)).dataset;
    fill(fields.settings, viewsOf(data, fields.dataset.value).map((view) => [view.label, view.label]));
  };
  // The centre, interval and number of repetitions of a line at an r; of a method that does not depend on r, its only ones.
  const at = (view, quantity, method, r) => {
    const line = view.lines[quantity]?.find((each) => each.method === method);
    const i = line ? (view.flat.includes(method) ? 0 : line.r.indexOf(r)) : -1;
    return i < 0 ? undefined : { centre: line.centre[i], low: line.low[i], high: line.high[i], n: line.n[i] };
  };
  const address = (id, choices) => `#${id}?${new URLSearchParams(choices)}`;
  // Notes on the rows of a view, each followed by a space; kmdr's own note has code between backticks.
  const noteOf = (view) => [
    view.stand_in && [`Stand-in: ${view.stand_in}.`], view.settings && [`Settings: ${view.settings}.`],
    view.untimed && view.untimed.split("`").map((text, i) => (i % 2 ? made("code", {}, text) : text)), view.code && [view.code],
  ].filter(Boolean).flatMap((note) => [...note, " "]);

{% include "plot.js" %}

{% include "answers.js" %}

{% include "explore.js" %}

{% include "which.js" %}
})();
