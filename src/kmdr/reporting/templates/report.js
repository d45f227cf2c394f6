"use strict";
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];

  const button = (text, onClick) => {
    const made = document.createElement("button");
    made.type = "button";
    made.append(...[text].flat());
    made.addEventListener("click", onClick);
    return made;
  };

  const status = document.getElementById("status");

  // Views are shown one at a time: the one that contains the element that the address names. What follows "?" is the
  // state of that part.
  const views = all(".view");
  const menu = document.getElementById("menu");
  const links = all("#menu-links a");
  const question = document.title;
  const target = () => {
    try {
      return document.getElementById(decodeURIComponent(location.hash.slice(1).split("?")[0]));
    } catch {
      return null; // an address may be anything, e.g. "#%"
    }
  };
  let shown;
  const show = () => {
    const place = target();
    const view = place?.closest(".view") ?? views[0];
    for (const each of views) each.classList.toggle("shown", each === view);
    for (const link of links) {
      if (link.hash === `#${view.id}`) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    document.documentElement.classList.remove("addressed");
    for (let each = place?.querySelector(":scope > details") ?? place; each; each = each.parentElement) {
      if (each.localName === "details") each.open = true;
    }
    if (history.state?.y !== undefined) scrollTo(0, history.state.y);
    else if (place && place !== view) place.scrollIntoView();
    else if (shown && shown !== view) scrollTo(0, 0);
    document.title = view === views[0] ? question : `kmdr: ${view.getAttribute("aria-label")}`;
    shown = view;
    toggleMenu(false);
  };
  // Go to an address of this page. The place that is left is kept, so that the way back leads to it; the address of the
  // present place shows it once more, e.g. opens its details again.
  const leave = (hash) => {
    history.replaceState(hash === location.hash ? null : { y: scrollY }, "");
    if (hash === location.hash) show();
  };
  const go = (hash) => {
    leave(hash);
    location.hash = hash;
  };
  document.addEventListener("click", ({ target }) => {
    const link = target.closest?.("a[href^='#']");
    if (link) leave(link.hash);
  });
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault();
    event.stopPropagation();
    document.getElementById("content").focus();
  });
  // On a narrow screen the links are a menu.
  const menuButton = button("Menu", () => toggleMenu(menuButton.getAttribute("aria-expanded") !== "true"));
  const toggleMenu = (open) => {
    menu.classList.toggle("open", open);
    menuButton.setAttribute("aria-expanded", open);
  };
  menuButton.id = "menu-button";
  menuButton.setAttribute("aria-controls", "menu-links");
  menu.querySelector(".brand").after(menuButton);
  menu.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !menu.classList.contains("open")) return;
    toggleMenu(false);
    menuButton.focus();
  });
  addEventListener("hashchange", show);
  show();

  // Commands name the folder of this page, if it is on a disk.
  const folder = resultsFolder();
  for (const code of folder ? all(".command code") : []) {
    code.textContent = code.textContent
      .replace(/kmdr study=\S+/g, (study) => `${study} out=${folder}`).replaceAll("results/runs", () => folder);
  }

  // Search: each word must begin a word of the entry. What is typed last may be half a word. Case, accents, hyphens and
  // spaces do not matter, and words that begin none may have one edit from four letters on, and two from eight.
  const search = document.getElementById("search");
  const hits = document.getElementById("hits");
  let index;
  const SHOWN = 12, LONGEST = 200;
  const plain = (text) => text.toLowerCase().normalize("NFKD").replace(/\p{M}/gu, "").replace(/[^\p{L}\p{N}]+/gu, " ").trim();
  // The words of a text, and each two neighbours as one word: "COIL 20" is found by "coil20".
  const wordsOf = (text) => {
    const words = plain(text).split(" ");
    return [...words, ...words.slice(1).map((word, i) => words[i] + word)];
  };
  // The edits between a word and the beginning of another that is most like it: a letter inserted, omitted, replaced, or
  // exchanged with its neighbour.
  const edits = (word, other) => {
    let before = [], last = [...other, ""].map((_, j) => j);
    for (let i = 1; i <= word.length; i++) {
      const now = [i];
      for (let j = 1; j <= other.length; j++) {
        now[j] = Math.min(now[j - 1] + 1, last[j] + 1, last[j - 1] + (word[i - 1] !== other[j - 1]));
        if (i > 1 && j > 1 && word[i - 1] === other[j - 2] && word[i - 2] === other[j - 1]) now[j] = Math.min(now[j], before[j - 2] + 1);
      }
      [before, last] = [last, now];
    }
    return Math.min(...last);
  };
  const ALIKE = 0.6;
  const match = (word, entry) => {
    if (entry.key.includes(` ${word}`)) return 1;
    const allowed = word.length < 4 ? 0 : word.length < 8 ? 1 : 2;
    return allowed && entry.words.some((other) => other.length >= word.length - allowed && edits(word, other) <= allowed) ? ALIKE : 0;
  };
  const choose = (option) => {
    for (const each of hits.children) each.setAttribute("aria-selected", each === option);
    if (option) {
      search.setAttribute("aria-activedescendant", option.id);
      option.scrollIntoView({ block: "nearest" });
    } else search.removeAttribute("aria-activedescendant");
  };
  const find = () => {
    index ??= JSON.parse(document.getElementById("search-index").textContent)
      .map(([kind, text, address, more]) => {
        const words = [...new Set(wordsOf(`${kind} ${text} ${more}`))];
        return { kind, text, address, words, key: ` ${words.join(" ")}` };
      });
    const noise = new Set(["the", "a", "of", "on", "at", "by", "is", "r", "in", "does", "do", "which", "work", "works", "because", "claims", "why"]);
    const query = search.value.slice(0, LONGEST);
    const r = /\br\s*=?\s*(\d+)/i.exec(query);
    const typed = [...new Set(plain(query).split(" ").filter(Boolean))];
    const telling = typed.filter((word) => !noise.has(word) && word !== r?.[1]);
    const words = telling.length ? telling : r ? ["dataset"] : typed; // an r alone asks for all datasets at it
    // A word counts if it matches, or makes a word that matches together with its neighbour.
    const forms = words.map((word, i) => [word, ...(i ? [words[i - 1] + word] : []), ...(i + 1 < words.length ? [word + words[i + 1]] : [])]);
    const score = (entry) => forms.reduce((sum, some) => sum + Math.max(...some.map((form) => match(form, entry))), 0);
    const scored = words.length ? index.map((entry) => [score(entry), entry]) : [];
    const best = Math.max(0, ...scored.map(([points]) => points));
    const found = scored.filter(([points]) => points && points >= Math.min(best, Math.max(1, best - 1)))
      .sort(([a], [b]) => b - a).map(([, entry]) => entry);
    hits.replaceChildren(...found.slice(0, SHOWN).map(({ kind, text, address }, i) => {
      const option = document.createElement("li");
      option.id = `hit-${i}`;
      option.role = "option";
      const choices = kind === "dataset" ? (r ? `&r=${r[1]}` : "") + (/accura/i.test(query) ? "&by=accuracy" : "") : "";
      option.dataset.address = address + choices;
      const small = Object.assign(document.createElement("small"), { textContent: kind });
      option.append(small, ` ${text}`);
      option.addEventListener("click", () => follow(option));
      return option;
    }));
    const isEmpty = !query.trim();
    if (!isEmpty && !found.length) {
      const none = Object.assign(document.createElement("li"), { role: "option", textContent: "Nothing found." });
      none.setAttribute("aria-disabled", true);
      hits.append(none);
    }
    list(!isEmpty);
    choose(found.length ? hits.firstElementChild : undefined);
    status.textContent = isEmpty ? "" : `${found.length} found${found.length > SHOWN ? `, the first ${SHOWN} are listed` : ""}`;
  };
  const list = (open) => {
    hits.hidden = !open;
    search.setAttribute("aria-expanded", open);
    if (!open) search.removeAttribute("aria-activedescendant");
  };
  const follow = (option) => {
    list(false);
    go(option.dataset.address);
  };
  search.closest("search").hidden = false;
  search.addEventListener("input", find);
  search.addEventListener("focus", () => { if (hits.hidden) find(); });
  search.addEventListener("blur", () => list(false));
  hits.addEventListener("mousedown", (event) => event.preventDefault()); // else the box loses the focus, and the hits close
  search.addEventListener("keydown", (event) => {
    if (event.isComposing) return; // keys of an input method choose characters
    if (hits.hidden && search.value && ["ArrowDown", "ArrowUp", "Enter"].includes(event.key)) return find();
    const current = hits.querySelector("[aria-selected=true]");
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      const next = event.key === "ArrowDown" ? current?.nextElementSibling : current?.previousElementSibling;
      if (next) choose(next);
    } else if (event.key === "Enter" && current) {
      follow(current);
    } else if (event.key === "Escape") {
      search.value = "";
      find();
    }
  });

  // Sort numbers by value and text alphabetically; empty cells come last in both directions.
  const keyOf = (row, column) => row.cells[column].dataset.value ?? row.cells[column].textContent.trim();
  const compare = (a, b, sign) => {
    if (a === "" || b === "") return (a === "") - (b === "");
    const difference = Number(a) - Number(b);
    return sign * (Number.isNaN(difference) ? a.localeCompare(b, "en", { numeric: true }) : difference);
  };
  for (const table of all("table[data-sortable]")) {
    const heads = all("thead th", table);
    heads.forEach((head, column) => {
      const sort = () => {
        const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
        for (const other of heads) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
        const body = table.tBodies[0];
        body.append(...[...body.rows].sort((a, b) => compare(keyOf(a, column), keyOf(b, column), sign)));
      };
      head.append(button([...head.childNodes], sort));
    });
  }

  // Filters.
  const form = document.getElementById("claim-filter");
  const filter = () => {
    const { paper, verdict, text } = form.elements;
    const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = all("#claims-table tbody tr");
    for (const row of rows) {
      const content = row.textContent.toLowerCase();
      row.hidden = !(
        (!paper.value || row.dataset.paper === paper.value) &&
        (!verdict.value || row.dataset.verdict === verdict.value) &&
        words.every((word) => content.includes(word))
      );
    }
    const shown = rows.filter((row) => !row.hidden).length;
    document.getElementById("claim-count").textContent = `${shown} of ${rows.length} claims`;
  };
  const PREFIX = "#claims?";
  const restore = () => {
    if (location.hash.startsWith(PREFIX)) {
      const state = new URLSearchParams(location.hash.slice(PREFIX.length));
      for (const name of ["paper", "verdict", "text"]) {
        const field = form.elements[name];
        field.value = state.get(name) ?? "";
        if (field.selectedIndex === -1) field.value = "";
      }
    }
    filter();
  };
  if (form) {
    form.hidden = false;
    onChoice(form, () => {
      filter();
      const state = [...new FormData(form)].filter(([, value]) => value);
      history.replaceState(null, "", state.length ? PREFIX + new URLSearchParams(state) : "#claims");
    });
    form.addEventListener("submit", (event) => event.preventDefault());
    addEventListener("hashchange", restore);
    restore();
  }

  // Long tables are made when they are first opened, from compressed data.
  const make = (tag, text = "", properties = {}) => Object.assign(document.createElement(tag), { textContent: text, ...properties });
  let tables;
  const fetchTables = () => tables ??= (async () => {
    const bytes = Uint8Array.from(atob(document.getElementById("tables").textContent), (letter) => letter.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
  })();
  for (const details of "DecompressionStream" in window ? all("details[data-table]") : []) {
    details.hidden = false;
    details.addEventListener("toggle", async () => {
      const { names, lines, numeric, omitted } = (await fetchTables())[details.dataset.table];
      const row = (texts, tag) => {
        const made = make("tr");
        made.append(...texts.map((text, i) => make(tag, text, { className: numeric.includes(i) ? "num" : "", ...(tag === "th" && { scope: "col" }) })));
        return made;
      };
      const [table, head, body] = ["table", "thead", "tbody"].map((tag) => make(tag));
      head.append(row(names, "th"));
      body.append(...lines.map((texts) => row(texts, "td")));
      table.append(head, body);
      const box = make("div", "", { className: "box", tabIndex: 0, role: "region" });
      box.setAttribute("aria-label", `${details.closest("article").id}: numbers in this figure`);
      box.append(table);
      details.append(box, ...(omitted ? [make("p", `The CSV has ${omitted} more rows.`, { className: "muted" })] : []));
    }, { once: true });
  }

  // A link to every part, for sharing.
  for (const part of all("main :is(h1, h2)[id], main article[id] > :is(h2, h3), main tr[id] > th")) {
    const id = part.id || part.parentElement.id;
    const anchor = Object.assign(document.createElement("a"), { className: "anchor", href: `#${id}`, textContent: "#" });
    const note = part.querySelector(":scope > small"), name = part.cloneNode(true);
    name.querySelector(":scope > small")?.remove();
    anchor.setAttribute("aria-label", `Address of ${name.textContent.trim()}`);
    part.insertBefore(anchor, note);
  }

  // Copy a command; if the clipboard is not accessible, select it instead.
  for (const [i, command] of all(".command").entries()) {
    const code = command.querySelector("code");
    const copy = button("Copy", async () => {
      try {
        await navigator.clipboard.writeText(code.textContent);
        status.textContent = copy.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(code);
        status.textContent = copy.textContent = "Selected";
      }
      setTimeout(() => { copy.textContent = "Copy"; }, 2000);
    });
    copy.className = "copy";
    copy.id = `copy-${i}`;
    code.id ||= `command-${i}`;
    copy.setAttribute("aria-labelledby", `${copy.id} ${code.id}`);
    code.after(copy);
  }

  // Figures load when they come into sight, and the others when the page has nothing else to do: unseen ones are printed too.
  addEventListener("load", () => (window.requestIdleCallback ?? setTimeout)(() => {
    for (const image of document.images) image.loading = "eager";
  }));

  // Open all details that are not marked as bulk before printing.
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = all("details:not([open]):not(.bulk)");
    for (const details of opened) details.open = true;
  });
  addEventListener("afterprint", () => {
    for (const details of opened) details.open = false;
  });
})();
