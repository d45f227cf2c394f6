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

  // Views are shown one at a time: the one that contains the element that the address names. What follows "?" is the
  // state of that part.
  const views = all(".view");
  const menu = document.getElementById("menu");
  const links = all("#menu-links a");
  const target = () => document.getElementById(decodeURIComponent(location.hash.slice(1).split("?")[0]));
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
    for (let each = place; each; each = each.parentElement) if (each.localName === "details") each.open = true;
    if (place && place !== view) place.scrollIntoView();
    else if (shown && shown !== view) scrollTo(0, 0);
    if (shown && shown !== view) document.title = `kmdr: ${view.querySelector("h1").textContent}`;
    shown = view;
    toggleMenu(false);
  };
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
    if (event.key === "Escape") toggleMenu(false);
  });
  addEventListener("hashchange", show);
  show();

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
      for (const name of ["paper", "verdict", "text"]) form.elements[name].value = state.get(name) ?? "";
      document.getElementById("claims").scrollIntoView();
    }
    filter();
  };
  form.hidden = false;
  form.addEventListener("input", () => {
    filter();
    const state = [...new FormData(form)].filter(([, value]) => value);
    history.replaceState(null, "", state.length ? PREFIX + new URLSearchParams(state) : "#claims");
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  addEventListener("hashchange", restore);
  restore();

  // A link to every part, for sharing.
  for (const part of all("main :is(h1, h2)[id], main article[id] > :is(h2, h3), main tr[id] > th")) {
    const id = part.id || part.parentElement.id;
    const anchor = Object.assign(document.createElement("a"), { className: "anchor", href: `#${id}`, textContent: "#" });
    anchor.setAttribute("aria-label", `Address of ${part.textContent.trim()}`);
    part.append(anchor);
  }

  // Copy a command; if the clipboard is not accessible, select it instead.
  const status = document.getElementById("status");
  for (const command of all(".command")) {
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
    copy.setAttribute("aria-label", `Copy: ${code.textContent}`);
    code.after(copy);
  }

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
