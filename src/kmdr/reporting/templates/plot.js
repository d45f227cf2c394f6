  // Plots as SVG, drawn on white; in the dark the style sheet inverts them, as it does figures.
  const svg = (kind, attributes, ...children) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", kind);
    for (const [name, value] of Object.entries(attributes)) if (value !== undefined) element.setAttribute(name, value);
    element.append(...children);
    return element;
  };
  const INK = "#1b2027", MUTED = "#566070", GRID = "#e3e7ec", FONT = "12px system-ui, sans-serif";
  const widthOf = (() => {
    const context = document.createElement("canvas").getContext("2d");
    context.font = FONT;
    return (text) => context.measureText(text).width;
  })();

  const marker = (style, x, y, size = 8) => svg("path", {
    d: style.path, transform: `translate(${x} ${y}) scale(${size})`, fill: style.filled ? style.color : "#ffffff",
    stroke: style.color, "stroke-width": 1.4, "vector-effect": "non-scaling-stroke",
  });
  const swatch = (style, x = 0, y = 7) => svg("g", {},
    svg("line", { x1: x, x2: x + 28, y1: y, y2: y, stroke: style.color, "stroke-width": 2, "stroke-dasharray": style.dash || undefined }),
    ...(style.path ? [marker(style, x + 14, y)] : []));

  // Round numbers in a range: 1, 2 or 5 times a power of ten; on a logarithmic axis powers of ten if there are several.
  const roundTicks = (low, high, log) => {
    if (log) {
      const powers = [];
      for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++) powers.push(power);
      const few = powers.length > 4 ? [1] : powers.length > 2 ? [1, 3] : [1, 2, 3, 5, 7];
      return powers.flatMap((power) => few.map((digit) => Number(`${digit}e${power}`))).filter((tick) => tick >= low && tick <= high);
    }
    const rough = (high - low) / 5, power = 10 ** Math.floor(Math.log10(rough));
    const step = power * ([1, 2, 5].find((digit) => digit * power >= rough) ?? 10);
    return Array.from({ length: 12 }, (_, i) => (Math.ceil(low / step) + i) * step).filter((tick) => tick <= high * (1 + 1e-9) || tick <= high);
  };
  const plainTick = (value) => String(Number(value.toPrecision(6))).replaceAll("-", "−");

  // An axis: log if asked for, or if not asked and the positive values span more than a factor.
  const axis = (values, scale, factor, from, to, pad) => {
    const finite = values.filter((value) => Number.isFinite(value));
    let [low, high] = [Math.min(...finite), Math.max(...finite)];
    const log = low > 0 && (scale === "log" || (scale === "" && high / low >= factor));
    const place = log ? Math.log10 : (value) => value;
    const gap = pad * (place(high) - place(low)) || (log ? 0.3 : Math.abs(high) * 0.1 || 1);
    const [start, end] = [place(low) - gap, place(high) + gap];
    const at = (value) => from + (to - from) * (place(value) - start) / (end - start);
    return { at, log, low: log ? 10 ** start : start, high: log ? 10 ** end : end };
  };

  const canvas = (width, height, ...parts) => svg("svg", { xmlns: "http://www.w3.org/2000/svg", viewBox: `0 0 ${width} ${height}`, width, height, "font-family": "system-ui, sans-serif", "font-size": 12 },
    svg("rect", { width, height, fill: "#ffffff" }), ...parts);

  // Draw a plot into a box.
  //
  // spec.series: {label, style, x, y, low, high, text, step, flat} each; spec.x and spec.y: {label, scale, ticks}; y may be
  // `categories`, which are labels from top to bottom. With `legend`, names are drawn below, for a picture of its own.
  const plotted = (spec, width, legend = false) => {
    if (!spec.series.length) {
      const nothing = svg("text", { x: width / 2, y: 28, "text-anchor": "middle", fill: INK }, "Nothing to show.");
      return { root: canvas(width, 48, nothing), points: [] };
    }
    const categories = spec.categories, height = categories ? 60 + 24 * categories.length : width < 500 ? 320 : 420;
    const yValues = spec.series.flatMap((each) => [each.y, each.low, each.high].flat()).filter((value) => value !== null);
    const left = categories ? Math.min(width / 2, 16 + Math.max(...categories.map(widthOf))) : 62, right = width - 12, top = 10, bottom = height - 46;
    const xs = spec.series.flatMap((each) => categories ? [each.x, each.low, each.high].flat() : each.x).filter((value) => value !== null && value !== undefined);
    const x = axis(xs, spec.x.scale, 10, left + 4, right - 4, 0.03);
    const y = categories ? { at: (i) => top + 14 + 24 * i } : axis(yValues, spec.y.scale, 20, bottom, top, 0.05);
    const parts = [], points = [];
    const text = (content, attributes) => svg("text", { fill: INK, style: undefined, ...attributes }, content);

    const xTicks = spec.x.ticks ?? roundTicks(x.low, x.high, x.log);
    let free = -Infinity;
    for (const tick of xTicks) {
      const place = x.at(tick), label = plainTick(tick), half = widthOf(label) / 2;
      parts.push(svg("line", { x1: place, x2: place, y1: bottom, y2: bottom + 5, stroke: MUTED }));
      if (!spec.x.ticks) parts.push(svg("line", { x1: place, x2: place, y1: top, y2: bottom, stroke: GRID }));
      if (place - half < free || place + half > width) continue;
      parts.push(text(label, { x: place, y: bottom + 18, "text-anchor": "middle" }));
      free = place + half + 8;
    }
    // The label of the axis stays inside, and is condensed if it is wider than the plot.
    const half = Math.min(widthOf(spec.x.label) + 8, width) / 2;
    parts.push(text(spec.x.label, {
      x: Math.max(half, Math.min((left + right) / 2, width - half)), y: height - 8, "text-anchor": "middle",
      textLength: 2 * half === width ? width - 8 : undefined, lengthAdjust: "spacingAndGlyphs",
    }));
    if (categories) {
      categories.forEach((label, i) => parts.push(text(label, { x: left - 8, y: y.at(i) + 4, "text-anchor": "end" })));
    } else {
      for (const tick of roundTicks(y.low, y.high, y.log)) {
        parts.push(svg("line", { x1: left, x2: right, y1: y.at(tick), y2: y.at(tick), stroke: GRID }));
        parts.push(text(plainTick(tick), { x: left - 6, y: y.at(tick) + 4, "text-anchor": "end" }));
      }
      parts.push(text(spec.y.label, { transform: `translate(13 ${(top + bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }));
    }
    parts.push(svg("path", { d: `M${left} ${top}V${bottom}H${right}`, fill: "none", stroke: MUTED }));

    for (const each of spec.series) {
      const { style } = each, stroke = { stroke: style.color, "stroke-width": 1 };
      const places = each.x.map((value, i) => [x.at(value), y.at(each.y[i])]);
      const steps = places.map(([a, b], i) => (i === 0 ? `M${a} ${b}` : each.step ? `H${a}V${b}` : `L${a} ${b}`)).join("");
      const group = svg("g", { "data-label": each.label });
      if (!categories) group.append(svg("path", { d: steps, fill: "none", ...stroke, "stroke-width": 2, "stroke-dasharray": style.dash || undefined }));
      places.forEach(([a, b], i) => {
        const ends = each.low[i] === null || each.low[i] === undefined;
        if (!ends && !each.step && !each.flat) {
          group.append(categories ? svg("line", { x1: x.at(each.low[i]), x2: x.at(each.high[i]), y1: b, y2: b, ...stroke, "stroke-width": 2 })
            : svg("line", { x1: a, x2: a, y1: y.at(y.log ? Math.max(each.low[i], y.low) : each.low[i]), y2: y.at(each.high[i]), ...stroke }));
        }
        if (!each.step && !each.flat && (style.path || categories)) group.append(marker(style.path ? style : { ...style, path: "M-.5 0H.5M0 -.5V.5" }, a, b));
        points.push({ x: a, y: b, text: each.text[i], label: each.label });
      });
      parts.push(group);
    }

    let full = height;
    if (legend) {
      let place = left, line = height + 12;
      for (const each of spec.series) {
        const size = 48 + widthOf(each.label);
        if (place + size > right && place > left) [place, line] = [left, line + 18];
        parts.push(swatch(each.style, place, line), text(each.label, { x: place + 34, y: line + 4 }));
        place += size;
      }
      full = line + 14;
    }
    return { root: canvas(width, full, ...parts), points };
  };

  // Show a plot in a box, as wide as the box, and the text of the point that is nearest to the pointer.
  const showPlot = (box, spec) => {
    const readout = box.querySelector("output") ?? box.appendChild(made("output"));
    const draw = () => {
      const { root, points } = plotted(spec(), Math.max(280, box.clientWidth));
      root.setAttribute("role", "img");
      root.setAttribute("aria-label", `${spec().title}; the numbers are in the table below`);
      const near = (event) => {
        const frame = root.getBoundingClientRect();
        const [x, y] = [event.clientX - frame.x, event.clientY - frame.y];
        const nearest = points.reduce((best, point) => {
          const far = Math.hypot(point.x - x, point.y - y);
          return far < best.far ? { far, point } : best;
        }, { far: 40 }).point;
        readout.textContent = nearest?.text ?? "";
        for (const group of root.querySelectorAll("[data-label]")) group.setAttribute("opacity", nearest && group.dataset.label !== nearest.label ? 0.35 : 1);
      };
      root.addEventListener("pointermove", near);
      root.addEventListener("pointerdown", near);
      box.querySelector("svg")?.remove();
      box.prepend(root);
    };
    box.redraw?.disconnect();
    let width = box.clientWidth;
    box.redraw = new ResizeObserver(() => {
      if (box.clientWidth === width) return;
      width = box.clientWidth;
      draw();
    });
    draw();
    box.redraw.observe(box);
  };

  const save = (name, href) => made("a", { download: name, href }).click();
  const savePicture = (spec, name, kind) => {
    const { root } = plotted(spec(), 800, !spec().categories);
    const address = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(root))}`;
    if (kind === "svg") return save(`${name}.svg`, address);
    const image = new Image();
    image.addEventListener("load", () => {
      const canvas = made("canvas", { width: 2 * image.width, height: 2 * image.height });
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      save(`${name}.png`, canvas.toDataURL("image/png"));
    });
    image.src = address;
  };
  const saveCsv = (heads, rows, name) => {
    // Text that a spreadsheet would take for a formula gets an apostrophe, as in the CSV files of kmdr.
    const safe = (value) => (typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value ?? ""));
    const quoted = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
    const lines = [heads, ...rows].map((row) => row.map((value) => quoted(safe(value))).join(","));
    save(`${name}.csv`, `data:text/csv;charset=utf-8,${encodeURIComponent(`${lines.join("\n")}\n`)}`);
  };
