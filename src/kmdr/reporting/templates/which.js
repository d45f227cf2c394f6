  // "Which method?": the ranking of the methods of the atlas, over some data or on one dataset.
  (() => {
    const form = document.getElementById("which-form");
    if (!form) return;
    const fields = form.elements, table = document.getElementById("which-table");
    const SCOPE = "all:", DATASET = "one:";
    const style = { color: "#0072b2", dash: "", path: "M0 -.5A.5 .5 0 1 1 0 .5A.5 .5 0 1 1 0 -.5Z", filled: true };
    // Losses are shown in percent.
    const FORMS = { loss: [100, ".2f", " (%)"], accuracy: [1, ".3f", ""], time: [1, ".3g", ""] };
    // The places of the quantities in a line of a dataset: method, its r, r ÷ k, repetitions, and each with its interval.
    const COLUMNS = { loss: 4, accuracy: 7, time: 10 };
    const wordsOf = (place) => (place[0] === "r" ? `r = ${place.slice(1)} k` : `time ≤ ${100 * Number(place.slice(1))} %`);
    const chosen = (atlas) => {
      const name = fields.data.value.slice(SCOPE.length);
      return fields.data.value.startsWith(DATASET) ? { name, lines: atlas.datasets[name] } : { name, rankings: atlas.scopes[name] };
    };
    const distinct = (values) => [...new Set(values)];

    const offer = ({ atlas }) => {
      fill(fields.data, [
        ...Object.keys(atlas.scopes).map((name, i) => [SCOPE + name, i ? `all ${name} data` : name]),
        ...Object.keys(atlas.datasets).map((name) => [DATASET + name, name]),
      ]);
      const { lines, rankings } = chosen(atlas);
      const forms = lines ? Object.keys(lines) : distinct(rankings.map((each) => each.form));
      fill(fields.form, forms.map((name) => [name, name]));
      // Only what was measured is offered.
      const ofForm = lines?.[fields.form.value] ?? rankings?.filter((each) => each.form === fields.form.value) ?? [];
      const having = (name) => ofForm.filter((each) => (lines ? each[COLUMNS[name]] !== null : each.quantity === name && each.lines.length));
      fill(fields.by, Object.entries(atlas.quantities).filter(([name]) => having(name).length).map(([name, { label }]) => [name, label]));
      const measured = having(fields.by.value);
      const places = lines
        ? [...distinct(measured.map((line) => line[2]).filter(Boolean)).sort((a, b) => a - b).map((multiple) => `r${multiple}`),
          ...atlas.budgets.filter((budget) => fields.by.value !== "time" && measured.some((line) => line[10] !== null && line[10] <= budget)).map((budget) => `t${budget}`)]
        : distinct(measured.map((each) => each.at));
      const first = !fields.at.value;
      fill(fields.at, places.map((place) => [place, wordsOf(place)]));
      if (first && places.includes("r20")) fields.at.value = "r20";
    };

    // The lines of one dataset under a condition: each method at r, or at its r of least F that is fast enough.
    const linesAt = (lines, place) => {
      const number = Number(place.slice(1));
      if (place[0] === "r") return lines.filter((line) => line[2] === number || line[2] === null);
      const best = new Map();
      for (const line of lines) {
        if (line[10] === null || line[10] > number || (best.has(line[0]) && best.get(line[0])[4] <= line[4])) continue;
        best.set(line[0], line);
      }
      return [...best.values()];
    };

    const draw = ({ atlas }) => {
      const { name, lines, rankings } = chosen(atlas), by = fields.by.value, place = fields.at.value;
      const { label, least } = atlas.quantities[by], [factor, digits, unit] = FORMS[by];
      const scaled = (value) => (value === null ? null : factor * value);
      let methods, saying;
      if (lines) {
        const column = COLUMNS[by];
        methods = linesAt(lines[fields.form.value] ?? [], place).filter((line) => line[column] !== null).map((line) => ({
          label: line[0], cell: { centre: scaled(line[column]), low: by === "time" ? null : scaled(line[column + 1]), high: by === "time" ? null : scaled(line[column + 2]), n: line[3] },
          extra: { value: line[1], text: String(line[1]) },
        }));
        methods.sort((a, b) => (least ? 1 : -1) * (a.cell.centre - b.cell.centre));
        saying = "Intervals are of the paired difference to all features; no test compares the methods with each other here.";
      } else {
        const ranking = rankings.find((each) => each.form === fields.form.value && each.quantity === by && each.at === place);
        methods = (ranking?.lines ?? []).map(([label, centre, low, high, n, rank]) => ({
          label, cell: { centre: scaled(centre), low: scaled(low), high: scaled(high), n },
          extra: { value: rank ?? undefined, text: number(rank, ".2f") }, may: ranking.best.includes(label),
        }));
        const leaders = ranking?.leaders ?? [];
        const equal = ranking?.p === null ? "There are too few data for a test." : "Equality of all methods is not rejected.";
        saying = !ranking ? "No method was measured under this condition."
          : `${plural(ranking.methods, "method")} on ${plural(ranking.sources, "source")} of data. ` + (leaders.length > 1 ? `Not shown to be worse than the best average rank: ${leaders.join("; ")}.` : leaders.length ? `${leaders[0]} is better than every other.` : equal)
            + (ranking.joined.length ? " Each submission is ranked and tested among these and itself alone." : "");
      }
      const heads = ["rank", "method", `${label}${unit} [95 % interval]`, lines ? "repetitions" : "sources", lines ? "r" : "average rank", "by"];
      delete table.dataset.sort;
      showTable(table, heads, methods.map(({ label, cell, extra, may }, i) => [
        { value: i + 1, text: String(i + 1) },
        { value: label, nodes: [label, ...(may ? [" ", made("span", { className: "badge good" }, "may be best")] : [])] },
        { value: cell.centre, text: estimate(cell, digits), kind: "num" },
        { value: cell.n, text: String(cell.n) },
        extra,
        { value: atlas.by[label] ?? "–", text: atlas.by[label] ?? "–" },
      ]));
      const title = `${label}${unit}: ${name}, ${fields.form.value}, ${wordsOf(place)}`;
      document.getElementById("which-sentence").textContent = `${name[0].toUpperCase()}${name.slice(1)}, ${fields.form.value}, ${wordsOf(place)}: ${saying}`;
      showPlot(document.getElementById("which-plot"), () => ({
        title, categories: methods.map((each) => each.label), x: { label: `${label}${unit}`, scale: "" }, y: {},
        series: methods.map(({ label, cell }, row) => ({
          label, style, x: [cell.centre], y: [row], low: [cell.low], high: [cell.high], text: [`${label}: ${estimate(cell, digits)}`],
        })),
      }));
    };
    connect("which-method", form, ["data", "form", "by", "at"], offer, draw);
  })();
