  // "Answers": the ranking of the methods on one dataset at one r, and one method over all datasets.
  (() => {
    const form = document.getElementById("answers-form"), fields = form.elements;
    const table = document.getElementById("answers-table");

    const offer = (data) => {
      offerViews(data, fields);
      const view = chosenView(data, fields), before = Number(fields.r.value || 20);
      fill(fields.by, Object.keys(data.quantities).filter((name) => name in view.best).map((name) => [name, data.quantities[name].label]));
      fill(fields.r, view.grid.map((r) => [r, r]));
      const nearest = view.grid.reduce((best, r) => (Math.abs(Math.log(r / before)) < Math.abs(Math.log(best / before)) ? r : best));
      if (Number(fields.r.value) !== before) fields.r.value = nearest;
    };

    const draw = (data) => {
      const view = chosenView(data, fields), r = Number(fields.r.value), by = fields.by.value, about = data.quantities[by];
      const may = view.best[by]?.[view.grid.indexOf(r)] ?? [];
      const methods = view.methods.map((label, method) => ({ label, method, cell: at(view, by, method, r) })).filter(({ cell }) => cell);
      methods.sort((a, b) => (about.least ? 1 : -1) * (a.cell.centre - b.cell.centre));
      const named = ({ label, method }) => (view.reducers[method] === "none" ? `k-means on all features (${label})` : label);
      const look = (label) => svg("svg", { class: "swatch", width: 28, height: 14, "aria-hidden": "true" }, swatch(data.styles[label]));
      const formOf = (name) => data.quantities[name].form;
      const estimated = (name, cell) => ({ value: cell?.centre, text: estimate(cell, formOf(name)), kind: "num" });
      const counted = (cell) => ({ value: cell?.n, text: number(cell?.n, ".0f") });
      const others = ["relative_objective", "accuracy"].filter((name) => name !== by && name in view.lines);
      const heads = ["rank", "method", `${about.label} [95 % interval]`, about.statistic === "median" ? "timings" : "n",
        ...others.map((name) => data.quantities[name].label), ...(by === "total_seconds" ? [] : ["total time (s)", "timings"])];
      const rows = methods.map(({ label, method, cell }, place) => {
        const time = at(view, "total_seconds", method, r);
        const row = [
          { value: place + 1, text: String(place + 1) },
          { value: label, nodes: [look(label), label, ...(view.reducers[method] === "none" ? [made("small", {}, " all features")] : view.flat.includes(method) ? [made("small", {}, " any r")] : []), ...(may.includes(method) ? [" ", made("span", { className: "badge good" }, may.length > 1 ? "may be best" : "best")] : [])] },
          estimated(by, cell), counted(cell),
          ...others.map((name) => at(view, name, method, r)).map((each, i) => ({ value: each?.centre, text: number(each?.centre, formOf(others[i])) })),
          ...(by === "total_seconds" ? [] : [{ value: time?.centre, text: number(time?.centre, formOf("total_seconds")) }, counted(time)]),
        ];
        return row;
      });
      delete table.dataset.sort;
      showTable(table, heads, rows);

      const [first, ...after] = methods, rivals = after.filter(({ method }) => may.includes(method)).map(named);
      const saying = first && `On ${view.title} at r = ${r}, ${named(first)} has the best (${about.least ? "lowest" : "highest"}) ${about.statistic} of ${about.label}: ${estimate(first.cell, about.form)}. `;
      const rest = rivals.length ? `Not distinguishable from the best: ${rivals.join(", ")}.` : after.length ? "All others are shown to be worse." : "No other method was run.";
      document.getElementById("answers-sentence").textContent = first ? saying + rest : "No method was measured by this quantity at this r.";
      showPlot(document.getElementById("answers-plot"), () => ({
        title: `${about.label} on ${view.title} at r = ${r}`,
        categories: methods.map(({ label }) => label), x: { label: about.label, scale: "" }, y: {},
        series: methods.map(({ label, cell }, row) => ({
          label, style: data.styles[label], x: [cell.centre], y: [row], low: [cell.low], high: [cell.high],
          text: [`${label}: ${estimate(cell, about.form)}, n = ${cell.n}`],
        })),
      }));
      const rowsOf = view.studies.map((study) => document.getElementById(`study-${study}`) ? link(`#study-${study}`, made("code", {}, study)) : made("code", {}, study));
      document.getElementById("answers-rows").replaceChildren(
        `Run as in ${view.label}. `, ...noteOf(view), "Rows: ", ...rowsOf.flatMap((each, i) => (i ? [", ", each] : [each])), ". ",
        link(address("explore", { dataset: view.dataset, settings: view.label, quantity: by }), "The same against r"), ".");
      document.getElementById("answers-command").textContent = view.studies.map((study) => `kmdr table ${folder} --study ${study}`).join(" && ");
    };
    connect("answers", form, ["dataset", "settings", "r", "by"], offer, draw);
  })();

  (() => {
    const form = document.getElementById("method-form"), fields = form.elements;
    const table = document.getElementById("method-table"), claims = document.getElementById("method-claims");

    // The methods, those that ran in the most experiments first.
    const offer = (data) => {
      const counts = new Map();
      for (const name of data.views.flatMap((view) => [...new Set(view.reducers)])) counts.set(name, (counts.get(name) ?? 0) + 1);
      counts.delete("none");
      fill(fields.method, [...counts.keys()].sort((a, b) => counts.get(b) - counts.get(a) || a.localeCompare(b)).map((name) => [name, name]));
    };

    const draw = (data) => {
      const reducer = fields.method.value, share = Number(fields.within.value) / 100;
      const having = data.views.filter((view) => view.reducers.includes(reducer));
      const views = having.filter((view, i) => fields.scope.value || having.findIndex((each) => each.dataset === view.dataset) === i);
      const rows = views.flatMap((view) => view.reducers.flatMap((name, method) => {
        if (name !== reducer) return [];
        const line = (quantity) => view.lines[quantity]?.find((each) => each.method === method) ?? { r: [], centre: [], low: [], high: [], n: [] };
        const [F, time] = [line("relative_objective"), line("relative_seconds")];
        const i = F.high.findIndex((high) => high !== null && high <= 1 + share);
        const faster = time.r.filter((_, j) => time.high[j] !== null && time.high[j] < 1);
        const known = time.high.filter((high) => high !== null).length, last = F.r.length - 1;
        const form = data.quantities.relative_objective.form, seconds = data.quantities.relative_seconds.form;
        const value = (of, j, form) => estimate({ centre: of.centre[j], low: of.low[j], high: of.high[j] }, form);
        return [[
          { value: view.title, nodes: [link(address("explore", { dataset: view.dataset, settings: view.label, quantity: "relative_objective" }), view.title), made("small", {}, ` as in ${view.label}`)] },
          { value: view.methods[method], text: view.methods[method] },
          { value: i < 0 ? undefined : F.r[i], text: i < 0 ? "–" : String(F.r[i]) },
          { value: i < 0 ? F.centre[last] : F.centre[i], nodes: [last < 0 ? "–" : i < 0 ? `${value(F, last, form)} at r = ${F.r[last]}` : value(F, i, form)] },
          { value: known ? faster.length / known : undefined, nodes: [known ? `at ${faster.length} of ${known} r${faster.length ? `: ${faster.join(", ")}` : ""}` : "–"] },
          { value: time.centre[0], nodes: [time.r.length ? time.r.map((r, j) => `${number(time.centre[j], seconds)} at r = ${r}`).filter((_, j) => j === 0 || j === time.r.length - 1).join(", ") : "–"] },
          { value: time.n[0], text: number(time.n[0], ".0f") },
        ]];
      }));
      showTable(table, ["dataset", "method", `F within ${fields.within.value} % from r`, "F ÷ F of all features there", "faster than all features", "time ÷ time of all features", "timings"], rows);
      const related = [...document.querySelectorAll("#claims-table tbody tr")].filter((row) => (row.dataset.methods ?? "").split(" ").includes(reducer));
      claims.replaceChildren(...related.map((row) => made("li", {}, row.cells[0].querySelector("a").cloneNode(true), ` ${row.cells[1].textContent} `, row.cells[2].firstElementChild.cloneNode(true))));
      document.getElementById("method-count").textContent = related.length ? `${plural(related.length, "claim")} tested with rows of this method:` : "No claim is tested with rows of this method.";
    };
    connect("by-method", form, ["method", "within", "scope"], offer, draw);
  })();
