  // "Explore": one quantity of one experiment against r, or ranks and profiles of the methods over datasets.
  (() => {
    const form = document.getElementById("explore-form"), fields = form.elements;
    const box = document.getElementById("explore-plot");
    const table = document.getElementById("explore-table");
    const hidden = new Set();
    const isOverview = () => fields.view.value !== "dataset";
    const overview = (data) => data.overviews[fields.paper.value] ?? {};

    const offer = (data) => {
      offerViews(data, fields);
      const papers = Object.keys(data.overviews).filter((name) => Object.keys(data.overviews[name]).length);
      fill(fields.paper, papers.map((name) => [name, name || "your runs"]));
      for (const name of ["dataset", "settings", "from", "to", "y"]) fields[name].disabled = isOverview();
      fields.paper.disabled = !isOverview();
      fields.x.disabled = fields.view.value === "ranks";
      for (const label of form.querySelectorAll("label")) label.hidden = label.control?.disabled ?? false;
      const view = chosenView(data, fields), known = isOverview() ? overview(data) : view.lines;
      fill(fields.quantity, Object.keys(data.quantities).filter((name) => name in known).map((name) => [name, data.quantities[name].label]));
      fill(fields.from, [["", "least"], ...view.grid.map((r) => [r, r])]);
      fill(fields.to, [["", "greatest"], ...view.grid.map((r) => [r, r])]);
    };

    // The lines of the chosen view: label, style, and for each point x, y, low, high, count and text.
    const linesOf = (data) => {
      const quantity = fields.quantity.value, about = data.quantities[quantity], kind = fields.view.value;
      if (!about) return [];
      if (isOverview()) {
        return (overview(data)[quantity]?.[kind] ?? []).map((each) => (kind === "ranks"
          ? { ...each, x: [each.mean], low: [each.low], high: [each.high], count: [each.count], form: [".3f", ".3f"] }
          : { ...each, x: each.factor, y: each.share, form: [".4g", ".3f"] }))
          .map((each) => ({ ...each, style: data.styles[each.label], y: each.y ?? [], count: each.count ?? [] }));
      }
      const view = chosenView(data, fields);
      const [from, to] = [Number(fields.from.value || 0), Number(fields.to.value || Infinity)].sort((a, b) => a - b);
      return (view.lines[quantity] ?? []).map((line) => {
        const flat = view.flat.includes(line.method), label = view.methods[line.method];
        const kept = line.r.map((r, i) => i).filter((i) => flat || (line.r[i] >= from && line.r[i] <= to));
        const pick = (name) => kept.map((i) => line[name][i]);
        return { label, style: data.styles[label], flat, x: pick("r"), y: pick("centre"), low: pick("low"), high: pick("high"), count: pick("n"), form: ["", about.form] };
      }).filter((line) => line.x.length);
    };
    const shownLines = (data) => linesOf(data).filter((line) => !hidden.has(line.label));

    const headsOf = (data) => ({
      dataset: ["method", "r", data.quantities[fields.quantity.value]?.statistic ?? "mean", "low", "high", "n"],
      ranks: ["method", "mean rank", "low", "high", "datasets"],
      profiles: ["method", "factor", "share", "low", "high"],
    }[fields.view.value]);
    const rowsOf = (data) => shownLines(data).flatMap((line) => line.x.map((x, i) => ({
      dataset: [line.label, x, line.y[i], line.low[i], line.high[i], line.count[i]],
      ranks: [line.label, x, line.low[i], line.high[i], line.count[i]],
      profiles: [line.label, x, line.y[i], line.low[i], line.high[i]],
    }[fields.view.value])));
    // The format of each column after the method's name.
    const formsOf = (data) => {
      const form = data.quantities[fields.quantity.value]?.form;
      return { dataset: [".0f", form, form, form, ".0f"], ranks: [".3f", ".3f", ".3f", ".0f"], profiles: [".4g", ".3f", ".3f", ".3f"] }[fields.view.value];
    };

    const plotOf = (data) => {
      const about = data.quantities[fields.quantity.value], kind = fields.view.value, lines = shownLines(data);
      const view = chosenView(data, fields);
      const curves = lines.filter((line) => !line.flat);
      const grid = [...new Set((curves.length ? curves : lines).flatMap((line) => line.x))].sort((a, b) => a - b);
      const wide = (line) => grid.length > 1 && line.flat;
      const series = lines.map((line, row) => ({
        ...line,
        flat: kind === "dataset" && wide(line), step: kind === "profiles",
        ...(kind === "ranks" ? { y: [row] } : {}),
        ...(kind === "dataset" && wide(line) ? Object.fromEntries(["y", "low", "high"].map((name) => [name, [line[name][0], line[name][0]]])) : {}),
        ...(kind === "dataset" && line.flat ? { x: grid.length > 1 ? [grid[0], grid.at(-1)] : grid.slice(0, 1) } : {}),
        text: (kind === "dataset" && wide(line) ? [0, 0] : line.x.map((_, i) => i)).map((i) => {
          const ends = interval(line.low[i] ?? null, line.high[i] ?? null, line.form[1]);
          return `${line.label}: ` + {
            dataset: () => `${line.flat ? "any r" : `r = ${line.x[i]}`}, ${about.label} ${number(line.y[i], line.form[1])} ${ends}, n = ${line.count[i]}`,
            ranks: () => `mean rank ${number(line.x[i], ".3f")} ${ends}, ${plural(line.count[i], "dataset")}`,
            profiles: () => `within ${number(line.x[i], ".4g")} times the best on ${number(line.y[i], ".3f")} of the datasets ${ends}`,
          }[kind]();
        }),
      }));
      return {
        series, title: `${about?.label ?? ""}${kind === "dataset" ? `, ${view.title}` : ""}`,
        categories: kind === "ranks" ? lines.map((line) => line.label) : undefined,
        x: kind === "dataset" ? { label: "number of dimensions r", scale: fields.x.value, ticks: grid }
          : kind === "ranks" ? { label: `mean rank by ${about?.label ?? ""}; 1 is the best`, scale: "linear" }
          : { label: `factor of the best ${about?.label ?? ""}`, scale: fields.x.value },
        y: { label: kind === "profiles" ? "share of the datasets" : about?.label ?? "", scale: kind === "profiles" ? "linear" : fields.y.value },
      };
    };

    const choices = (data) => {
      document.getElementById("explore-methods").replaceChildren(...linesOf(data).map((line) => {
        const sample = svg("svg", { class: "swatch", width: 28, height: 14, "aria-hidden": "true" }, swatch(line.style));
        return made("label", {}, made("input", { type: "checkbox", name: "method", value: line.label, checked: !hidden.has(line.label) }), sample, line.label);
      }));
    };

    const note = (data) => {
      const view = chosenView(data, fields), selected = overview(data)[fields.quantity.value];
      if (!isOverview()) {
        const about = data.quantities[fields.quantity.value];
        const kind = about?.statistic === "median" ? "Medians of the trials that were timed serially, with distribution-free 95 % intervals from six timings on." : "Means of all repetitions, with 95 % intervals.";
        return [`${kind} `, ...noteOf(view), "Studies: ", ...view.studies.flatMap((study, i) => [...(i ? [", "] : []), made("code", {}, study)]), "."];
      }
      if (!selected) return "Too few datasets have the same methods at the same r.";
      const kind = fields.view.value === "profiles" ? " Shares have Wilson's 95 % intervals over datasets."
        : " Mean ranks have 95 % intervals over datasets, of six datasets or more.";
      const omitted = selected.omitted.length ? ` Omitted, because run on fewer than half of them: ${selected.omitted.join(", ")}.` : "";
      return `Over ${plural(selected.problems.length, "dataset")}: ${selected.problems.join("; ")}. The value of a method on a dataset is its mean over the r that all of them have.${kind}${omitted}`;
    };

    const draw = (data, restored) => {
      if (restored) {
        hidden.clear();
        for (const label of restored.getAll("hide")) hidden.add(label);
      }
      choices(data);
      const forms = formsOf(data), rows = rowsOf(data), heads = headsOf(data);
      showTable(table, heads, rows.map((row) => row.map((value, i) => (i ? { value, text: number(value, forms[i - 1]) } : { value, text: value }))));
      showPlot(box, () => plotOf(data));
      document.getElementById("explore-note").replaceChildren(...[note(data)].flat());
      const stem = ["kmdr", ...["view", "paper", "dataset", "quantity"].filter((name) => !fields[name].disabled).map((name) => fields[name].value)].filter((part) => part !== "dataset").join("_").replace(/[^\w.-]+/g, "_");
      document.getElementById("explore-svg").onclick = () => savePicture(() => plotOf(data), stem, "svg");
      document.getElementById("explore-png").onclick = () => savePicture(() => plotOf(data), stem, "png");
      document.getElementById("explore-csv").onclick = () => saveCsv(heads, rowsOf(data), stem);
    };

    onChoice(form, (target) => {
      if (target.name === "method") hidden[target.checked ? "delete" : "add"](target.value);
    });
    connect("explore", form, ["view", "paper", "dataset", "settings", "quantity", "from", "to", "x", "y"], offer, draw);
  })();
